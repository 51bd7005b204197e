#include "constraint/regex.h"

#include <vector>

#include "constraint/regex_term.h"
#include "core/error.h"

namespace dml {
namespace {

using Id = Languages::Id;
using Term = RegexTerm;

// From terms to languages, backwards: each term gets the language of what follows it, so that an assertion about what
// is ahead is an intersection.
class Builder {
 public:
  explicit Builder(Languages& languages) : languages_(languages) {}

  // Whether a term stands at the very beginning of the text.
  enum class First { yes, no, perhaps };

  Id build(const Term& t, Id following, First first) {
    switch (t.kind) {
      case Term::Kind::begin:
        if (first == First::perhaps) throw UserError("'^' behind what may be empty is not supported");
        return first == First::yes ? following : Languages::kNone;
      case Term::Kind::end:
        return languages_.accepts_end(following) ? Languages::kEmptyText : Languages::kNone;
      case Term::Kind::ahead:
        return languages_.all_of({build(*t.parts[0], Languages::kAnything, first), following});
      case Term::Kind::not_ahead:
        return languages_.difference(following, build(*t.parts[0], Languages::kAnything, first));
      default:
        break;
    }
    if (!t.asserts()) return languages_.concatenation(plain(t), following);
    if (t.kind == Term::Kind::either) {
      std::vector<Id> parts;
      for (auto& part : t.parts) parts.push_back(build(*part, following, first));
      return languages_.either(std::move(parts));
    }
    DML_CHECK(t.kind == Term::Kind::sequence);
    std::vector<First> at_begin;
    for (auto& part : t.parts) {
      at_begin.push_back(first);
      if (first != First::no && !reads_nothing(*part))
        first = !part->asserts() && !languages_.accepts_end(plain(*part)) ? First::no : First::perhaps;
    }
    for (std::size_t i = t.parts.size(); i-- > 0;) following = build(*t.parts[i], following, at_begin[i]);
    return following;
  }

 private:
  static bool reads_nothing(const Term& t) {
    if (t.kind >= Term::Kind::begin) return true;
    if (t.kind == Term::Kind::language) return t.language == Languages::kEmptyText;
    for (auto& part : t.parts)
      if (!reads_nothing(*part)) return false;
    return true;
  }
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
};

}  // namespace

Id regex_search(Languages& languages, std::string_view regex) {
  const RegexTermPtr term = parse_regex(languages, regex);
  Builder builder(languages);
  const Id here = builder.build(*term, Languages::kAnything, Builder::First::yes);
  const Id later = builder.build(*term, Languages::kAnything, Builder::First::no);
  const Id some = languages.concatenation(languages.any_character(), Languages::kAnything);
  return languages.either({here, languages.concatenation(some, later)});
}

Id regex_match(Languages& languages, std::string_view regex) {
  const RegexTermPtr term = parse_regex(languages, regex);
  return Builder(languages).build(*term, Languages::kEmptyText, Builder::First::yes);
}

}  // namespace dml
