// Parses regular expressions: ECMA's syntax, plus what schemas borrow from other dialects.
#include "constraint/regex_term.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "constraint/regex_characters.h"
#include "constraint/utf8.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

using Id = Languages::Id;
using Term = RegexTerm;
using TermPtr = RegexTermPtr;

constexpr int kDeepest = 100;                     // nested groups
constexpr std::uint32_t kMaxRepeats = 1'000'000;  // in {n,m}
constexpr std::size_t kRangesPerTerm = 16;        // of characters, which count as another term

class Parser {
 public:
  Parser(Languages& languages, std::string_view source) : languages_(languages), source_(source) {
    bool valid = false;
    text_ = code_points(source, &valid);
    if (!valid) fail("it is not UTF-8");
  }

  TermPtr parse() {
    if (!(take(U"(?") && flags() && take(U')'))) at_ = 0, dot_is_all_ = ignores_case_ = false;
    TermPtr out = alternatives();
    if (at_ < text_.size()) fail("unmatched ')'");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw UserError("regex '{}', character {}: {}", shown(source_), at_ + 1, what);
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    return ++at_, true;
  }
  bool take(std::u32string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }

  TermPtr make(Term::Kind kind, Id language = Languages::kEmptyText) {
    if (++terms_ > kMaxTerms) fail(fmt::format("more than {} terms are not supported", kMaxTerms));
    auto out = std::make_unique<Term>();
    out->kind = kind;
    out->language = language;
    return out;
  }

  TermPtr alternatives() {
    if (++depth_ > kDeepest) fail("groups are nested too deeply");
    auto out = make(Term::Kind::either);
    do out->parts.push_back(sequence());
    while (take(U'|'));
    --depth_;
    return out->parts.size() == 1 ? std::move(out->parts[0]) : std::move(out);
  }

  TermPtr sequence() {
    auto out = make(Term::Kind::sequence);
    while (more() && peek() != U'|' && peek() != U')') out->parts.push_back(quantified());
    return out;
  }

  TermPtr quantified() {
    TermPtr out = atom();
    std::uint32_t least, most;
    if (!quantifier(least, most)) return out;
    if (!take(U'?') && peek() == U'+') fail("possessive quantifiers are not supported");
    auto repeated = make(Term::Kind::repetition);
    repeated->least = least;
    repeated->most = most;
    repeated->parts.push_back(std::move(out));
    return repeated;
  }

  bool quantifier(std::uint32_t& least, std::uint32_t& most) {
    const std::size_t begin = at_;
    least = 0, most = Languages::kUnbounded;
    if (take(U'*')) return true;
    if (take(U'+')) {
      least = 1;
    } else if (take(U'?')) {
      most = 1;
    } else if (!(take(U'{') && counts(least, most))) {
      at_ = begin;
      return false;
    }
    return true;
  }

  // Parses "n}", "n,}" or "n,m}"; false if it is not a quantifier and '{' is a literal.
  bool counts(std::uint32_t& least, std::uint32_t& most) {
    if (!number(least)) return false;
    most = least;
    if (take(U',')) {
      most = Languages::kUnbounded;
      if (peek() != U'}' && !number(most)) return false;
    }
    if (!take(U'}')) return false;
    if (least > most) fail("the numbers of a quantifier are out of order");
    return true;
  }
  bool number(std::uint32_t& out) {
    if (peek() < U'0' || peek() > U'9') return false;
    std::uint64_t value = 0;
    while (peek() >= U'0' && peek() <= U'9') {
      value = std::min<std::uint64_t>(value * 10 + (text_[at_] - U'0'), kMaxRepeats + 1);
      ++at_;
    }
    if (value > kMaxRepeats) fail(fmt::format("more than {} repetitions are not supported", kMaxRepeats));
    out = static_cast<std::uint32_t>(value);
    return true;
  }

  TermPtr atom() {
    const std::size_t begin = at_;
    if (std::uint32_t least, most; quantifier(least, most)) {
      at_ = begin;
      fail("nothing to repeat");
    }
    const char32_t c = text_[at_];
    switch (c) {
      case U'(':
        return group();
      case U'[':
        ++at_;
        return character_of(bracket());
      case U'.':
        ++at_;
        return character_of(dot_is_all_ ? inverted({}) : inverted({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      case U'^':
        ++at_;
        return make(Term::Kind::begin);
      case U'$':
        ++at_;
        return make(Term::Kind::end);
      case U'\\': {
        // As in most schemas: \A and \Z like ECMA's ^ and $.
        if (take(U"\\A")) return make(Term::Kind::begin);
        if (take(U"\\Z") || take(U"\\z")) return make(Term::Kind::end);
        if (take(U"\\b")) return make(Term::Kind::boundary);
        if (take(U"\\B")) return make(Term::Kind::not_boundary);
        ++at_;
        std::vector<CodePoints> set;
        escape(set, false);
        return character_of(cased(std::move(set)));
      }
      default:
        ++at_;
        return character_of(cased({{c, c}}));
    }
  }

  TermPtr character_of(std::vector<CodePoints> set) {
    terms_ += set.size() / kRangesPerTerm;
    auto out = make(Term::Kind::language, languages_.characters(set));
    out->set = std::move(set);
    return out;
  }
  std::vector<CodePoints> cased(std::vector<CodePoints> set) const {
    return ignores_case_ ? both_cases(std::move(set)) : set;
  }

  // Letters of flags that are known, at least one.
  bool flags() {
    bool some = false;
    for (; peek() == U'i' || peek() == U's' || peek() == U'u'; some = true) {
      ignores_case_ |= peek() == U'i';
      dot_is_all_ |= peek() == U's';
      ++at_;
    }
    return some;
  }

  // Adds the characters that the term stands for; false where it is not one character.
  static bool one_character(const Term& t, std::vector<CodePoints>& set) {
    if (t.kind == Term::Kind::language) {
      set.insert(set.end(), t.set.begin(), t.set.end());
      return !t.set.empty();
    }
    if (t.kind != Term::Kind::either && (t.kind != Term::Kind::sequence || t.parts.size() != 1)) return false;
    return std::ranges::all_of(t.parts, [&](auto& part) { return one_character(*part, set); });
  }

  TermPtr group() {
    ++at_;
    auto kind = Term::Kind::sequence;
    const auto before = std::tuple(dot_is_all_, ignores_case_);
    if (take(U"?=")) {
      kind = Term::Kind::ahead;
    } else if (take(U"?!")) {
      kind = Term::Kind::not_ahead;
    } else if (take(U"?:")) {
    } else if (take(U"?<=")) {
      kind = Term::Kind::behind;
    } else if (take(U"?<!")) {
      kind = Term::Kind::not_behind;
    } else if (take(U"?<") || take(U"?P<")) {
      while (more() && peek() != U'>') ++at_;
      if (!take(U'>')) fail("the name of a group has no '>'");
    } else if (peek() == U'?') {
      ++at_;
      if (!flags() || !take(U':')) fail("this kind of group is not supported");
    }
    auto out = make(kind);
    out->parts.push_back(alternatives());
    if (!take(U')')) fail("a group has no ')'");
    std::tie(dot_is_all_, ignores_case_) = before;
    if ((kind == Term::Kind::behind || kind == Term::Kind::not_behind) && !one_character(*out->parts[0], out->set))
      fail("look-behind of anything but one character is not supported");
    return out;
  }

  // After a backslash: adds the code points of the escape; returns whether it is a single one.
  bool escape(std::vector<CodePoints>& set, bool in_bracket) {
    if (!more()) fail("a backslash at the end");
    const char32_t c = text_[at_++];
    auto add = [&](const std::vector<CodePoints>& members) {
      set.insert(set.end(), members.begin(), members.end());
      return false;
    };
    if (std::vector<CodePoints> members = class_escape(c); !members.empty()) return add(members);
    if (c == U'p' || c == U'P') return add(property(c == U'P'));
    const char32_t x = character_escape(c, in_bracket);
    set.push_back({x, x});
    return true;
  }

  // The character of the escape `c`.
  char32_t character_escape(char32_t c, bool in_bracket) {
    if (const int control = control_escape(c); control >= 0) return static_cast<char32_t>(control);
    switch (c) {
      case U'x':
        return hex(2);
      case U'u':
        return unicode_escape();
      case U'c':
        if ((peek() | 32) >= U'a' && (peek() | 32) <= U'z') return text_[at_++] & 31;
        fail("\\c needs a letter");
      case U'b':
        if (in_bracket) return U'\b';
        [[fallthrough]];
      case U'B':
      case U'G':
      case U'k':
        fail(fmt::format("\\{} is not supported", static_cast<char>(c)));
      default:
        if (c >= U'1' && c <= U'9') fail("back-references are not supported");
        if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'))
          fail(fmt::format("unknown escape \\{}", static_cast<char>(c)));
        return c;
    }
  }

  // Parses what follows \u: {…}, four digits, or the two escapes of a surrogate pair.
  char32_t unicode_escape() {
    if (take(U'{')) {
      char32_t value = 0;
      while (more() && peek() != U'}') value = std::min<char32_t>(value * 16 + hex(1), 0x110000);
      if (!take(U'}') || value > Languages::kLast) fail("\\u{…} is not a code point");
      return value;
    }
    const char32_t high = hex(4);
    if (high < 0xD800 || high >= 0xDC00 || peek() != U'\\' || peek(1) != U'u') return high;
    at_ += 2;
    const char32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("a surrogate without its other half");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  // Parses what follows \p or \P: the members of {a general category}, or all others.
  std::vector<CodePoints> property(bool inverse) {
    std::string name;
    if (!take(U'{')) fail("\\p needs {…}");
    while (more() && peek() != U'}') name += static_cast<char>(text_[at_++]);
    if (!take(U'}')) fail("\\p{ has no '}'");
    for (std::string_view prefix : {"General_Category=", "gc="})
      if (name.starts_with(prefix)) name = name.substr(prefix.size());
    std::vector<CodePoints> members = general_category(name);
    if (members.empty()) fail(fmt::format("\\p{{{}}} is not supported; general categories are, as \\p{{Lu}}", name));
    return inverse ? inverted(std::move(members)) : members;
  }

  char32_t hex(int digits) {
    const std::optional<char32_t> value = hexadecimal(text_, at_, digits);
    if (!value) fail("a hexadecimal digit is missing");
    return *value;
  }

  std::vector<CodePoints> bracket() {
    const bool inverse = take(U'^');
    std::vector<CodePoints> set;
    while (true) {
      if (!more()) fail("a character class has no ']'");
      if (take(U']')) break;
      bool single = bracket_item(set);
      if (peek() == U'-' && peek(1) != U']' && at_ + 1 < text_.size() && single) {
        ++at_;
        const char32_t first = set.back().first;
        if (!bracket_item(set)) fail("a range ends in a class of characters");
        const char32_t last = set.back().first;
        set.pop_back();
        if (last < first) fail("the ends of a range are out of order");
        set.back() = {first, last};
      }
    }
    set = cased(std::move(set));
    return inverse ? inverted(std::move(set)) : set;
  }
  bool bracket_item(std::vector<CodePoints>& set) {
    if (take(U'\\')) {
      if (take(U'-')) {
        set.push_back({'-', '-'});
        return true;
      }
      return escape(set, true);
    }
    set.push_back({text_[at_], text_[at_]});
    ++at_;
    return true;
  }

  Languages& languages_;
  std::string_view source_;
  std::u32string text_;
  std::size_t at_ = 0, terms_ = 0;
  int depth_ = 0;
  bool dot_is_all_ = false, ignores_case_ = false;
};

}  // namespace

RegexTermPtr parse_regex(Languages& languages, std::string_view source) { return Parser(languages, source).parse(); }

}  // namespace dml
