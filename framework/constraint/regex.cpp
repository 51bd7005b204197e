#include "constraint/regex.h"

#include <algorithm>
#include <set>
#include <vector>

#include "constraint/regex_characters.h"
#include "constraint/regex_term.h"
#include "core/error.h"

namespace dml {
namespace {

using Id = Languages::Id;
using Term = RegexTerm;

constexpr std::uint32_t kMaxUnrolled = 1000;  // repetitions of what asserts something
constexpr std::size_t kMaxWork = 200'000;     // terms, those of repetitions each time, by kinds of characters

bool reads_nothing(const Term& t) {
  if (t.kind >= Term::Kind::begin) return true;
  if (t.kind == Term::Kind::language) return t.language == Languages::kEmptyText;
  return std::ranges::all_of(t.parts, [](auto& part) { return reads_nothing(*part); });
}

// Converts terms to languages from back to front: each term gets the language of what follows it, so a look-ahead
// assertion is an intersection.
class Builder {
 public:
  // [0]: at the beginning of the text; [1 + i]: after a character of kinds_[i].
  using Following = std::vector<Id>;

  Builder(Languages& languages, const Term& whole) : languages_(languages) { tell_apart(whole); }

  Following everywhere(Id language) const { return Following(1 + kinds_.size(), language); }

  Following build(const Term& t, const Following& following) {
    spend(kinds_.size());
    if (!t.asserts()) return read(plain(t), following);
    Following out = following;
    switch (t.kind) {
      case Term::Kind::sequence:
        for (std::size_t i = t.parts.size(); i-- > 0;) out = build(*t.parts[i], out);
        return out;
      case Term::Kind::either: {
        out = everywhere(Languages::kNone);
        for (auto& part : t.parts) out = either(out, build(*part, following));
        return out;
      }
      case Term::Kind::repetition:
        return repeated(t, following);
      default: {
        const bool looks_ahead = t.kind == Term::Kind::ahead || t.kind == Term::Kind::not_ahead;
        const Following ahead = looks_ahead ? build(*t.parts[0], everywhere(Languages::kAnything)) : following;
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = asserted(t, i, following[i], ahead[i]);
        return out;
      }
    }
  }

  // `following` after a text of `language`, found by the kind of that text's last character.
  Following read(Id language, const Following& following) {
    if (std::ranges::all_of(following, [&](Id f) { return f == following[0]; }))
      return everywhere(languages_.concatenation(language, following[0]));
    std::vector<Id> ways;
    const bool one_way =
        std::ranges::all_of(following.begin() + 1, following.end(), [&](Id f) { return f == following[1]; });
    if (one_way) {
      const Id some = languages_.concatenation(languages_.any_character(), Languages::kAnything);
      const Id not_empty = languages_.accepts_end(language) ? languages_.all_of({language, some}) : language;
      ways.push_back(languages_.concatenation(not_empty, following[1]));
    } else {
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        const Id ends_so = languages_.concatenation(Languages::kAnything, languages_.characters(kinds_[i]));
        ways.push_back(languages_.concatenation(languages_.all_of({language, ends_so}), following[1 + i]));
      }
    }
    const Following out = everywhere(languages_.either(std::move(ways)));
    return languages_.accepts_end(language) ? either(out, following) : out;
  }

 private:
  static const std::vector<CodePoints>& looked_at(const Term& t) {
    static const std::vector<CodePoints> kWord = class_escape(U'w'), kAny{{0, Languages::kLast}};
    if (t.kind == Term::Kind::boundary || t.kind == Term::Kind::not_boundary) return kWord;
    return t.kind == Term::Kind::behind || t.kind == Term::Kind::not_behind ? t.set : kAny;
  }

  void spend(std::size_t work) {
    if ((work_ += work) > kMaxWork) throw UserError("the regular expression is too complex: it looks around too often");
  }

  // Kinds of characters that assertions of the term tell apart.
  void tell_apart(const Term& t) {
    for (auto& part : t.parts) tell_apart(*part);
    const std::vector<CodePoints>& set = looked_at(t);
    if (!told_apart_.insert(languages_.characters(set)).second) return;
    spend(kinds_.size());
    const std::vector<CodePoints> others = inverted(set);
    std::vector<std::vector<CodePoints>> next;
    for (auto& kind : kinds_)
      for (auto* side : {&set, &others}) {
        std::vector<CodePoints> shared;
        for (CodePoints a : kind)
          for (CodePoints b : *side)
            if (std::max(a.first, b.first) <= std::min(a.last, b.last))
              shared.push_back({std::max(a.first, b.first), std::min(a.last, b.last)});
        if (!shared.empty()) next.push_back(std::move(shared));
      }
    kinds_ = std::move(next);
  }

  Following either(const Following& a, const Following& b) {
    Following out;
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(languages_.either({a[i], b[i]}));
    return out;
  }

  // What follows an assertion, where a character of kind `place` − 1 is behind. `ahead`: what a look-ahead asks for.
  Id asserted(const Term& t, std::size_t place, Id following, Id ahead) {
    const bool behind = place > 0 && contains(looked_at(t), kinds_[place - 1][0].first);
    switch (t.kind) {
      case Term::Kind::begin:
        return place == 0 ? following : Languages::kNone;
      case Term::Kind::end:
        return languages_.accepts_end(following) ? Languages::kEmptyText : Languages::kNone;
      case Term::Kind::ahead:
        return languages_.all_of({ahead, following});
      case Term::Kind::not_ahead:
        return languages_.difference(following, ahead);
      case Term::Kind::behind:
      case Term::Kind::not_behind:
        return behind == (t.kind == Term::Kind::behind) ? following : Languages::kNone;
      default: {  // of words
        const Id word = languages_.concatenation(languages_.characters(looked_at(t)), Languages::kAnything);
        return behind == (t.kind == Term::Kind::boundary) ? languages_.difference(following, word)
                                                          : languages_.all_of({following, word});
      }
    }
  }

  Following repeated(const Term& t, const Following& following) {
    const Term& part = *t.parts[0];
    if (reads_nothing(part)) return t.least == 0 ? following : build(part, following);
    const bool bounded = t.most != Languages::kUnbounded;
    if (std::max(t.least, bounded ? t.most : 0) > kMaxUnrolled)
      throw UserError("more than {} repetitions of a look-around are not supported", kMaxUnrolled);
    Following out = following;
    if (bounded) {
      for (std::uint32_t i = t.least; i < t.most; ++i) out = either(following, build(part, out));
    } else {
      if (may_be_empty(part))
        throw UserError("a quantifier behind a look-around that may match nothing is not supported");
      for (Id& each : out) each = languages_.loop(languages_.accepts_end(each));
      const Following ways = either(following, build(part, out));
      for (std::size_t i = 0; i < out.size(); ++i) languages_.define(out[i], ways[i]);
    }
    for (std::uint32_t i = 0; i < t.least; ++i) out = build(part, out);
    return out;
  }

  bool may_be_empty(const Term& t) const {
    const auto may = [&](auto& part) { return may_be_empty(*part); };
    switch (t.kind) {
      case Term::Kind::language:
        return languages_.accepts_end(t.language);
      case Term::Kind::either:
        return std::ranges::any_of(t.parts, may);
      case Term::Kind::repetition:
        return t.least == 0 || may(t.parts[0]);
      default:
        return t.kind != Term::Kind::sequence || std::ranges::all_of(t.parts, may);
    }
  }

  // Of a term without assertions.
  Id plain(const Term& t) {
    std::vector<Id> parts;
    for (auto& part : t.parts) parts.push_back(plain(*part));
    switch (t.kind) {
      case Term::Kind::language:
        return t.language;
      case Term::Kind::either:
        return languages_.either(std::move(parts));
      case Term::Kind::repetition:
        return languages_.repetition(parts[0], t.least, t.most);
      default: {
        Id out = Languages::kEmptyText;
        for (std::size_t i = parts.size(); i-- > 0;) out = languages_.concatenation(parts[i], out);
        return out;
      }
    }
  }

  Languages& languages_;
  std::vector<std::vector<CodePoints>> kinds_{{{0, Languages::kLast}}};
  std::set<Id> told_apart_{languages_.any_character()};  // sets of characters, as languages
  std::size_t work_ = 0;
};

}  // namespace

Id regex_search(Languages& languages, std::string_view regex) {
  const RegexTermPtr term = parse_regex(languages, regex);
  Builder builder(languages, *term);
  return builder.read(Languages::kAnything, builder.build(*term, builder.everywhere(Languages::kAnything)))[0];
}

Id regex_match(Languages& languages, std::string_view regex) {
  const RegexTermPtr term = parse_regex(languages, regex);
  Builder builder(languages, *term);
  return builder.build(*term, builder.everywhere(Languages::kEmptyText))[0];
}

}  // namespace dml
