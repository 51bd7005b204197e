// Parses literals, character classes, groups and repetitions; the latter two become unnamed rules.
#include "constraint/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>

#include "constraint/regex_characters.h"
#include "constraint/utf8.h"
#include "core/closest.h"
#include "core/error.h"

namespace dml {
namespace {

using Symbol = GrammarSymbol;
using Sequence = GrammarSequence;
using Rule = GrammarRule;

constexpr std::size_t kMaxSymbols = 200'000;
constexpr int kDeepestGroup = 200;

class GrammarParser {
 public:
  GrammarParser(std::string_view text, std::string_view source) : source_(source) {
    bool valid = false;
    text_ = code_points(text, &valid);
    if (!valid) throw UserError("{}: not UTF-8", source_);
  }

  GrammarRules parse() {
    space(true);
    while (more()) {
      const std::uint32_t rule = named(name());
      space(false);
      if (!take(U"::=")) fail("expected '::='");
      if (rules_[rule].defined) fail(fmt::format("rule '{}' is defined twice", rules_[rule].name));
      space(true);
      auto alternatives = expression(0);
      rules_[rule].alternatives = std::move(alternatives);
      rules_[rule].defined = true;
      if (more() && peek() != U'\n' && peek() != U'\r') fail("expected the end of the rule");
      space(true);
    }
    std::vector<std::string> names;
    for (auto& r : rules_)
      if (r.defined) names.push_back(r.name);
    for (auto& r : rules_)
      if (!r.defined)
        throw UserError("{}:{}: there is no rule '{}'{}", source_, r.line, r.name, did_you_mean(r.name, names));
    if (!ids_.contains("root")) throw UserError("{}: there is no rule 'root'", source_);
    return {std::move(rules_), std::move(sets_), ids_.at("root")};
  }

 private:
  // The line of at_, which only grows: what was counted before is not counted again.
  std::size_t line() {
    const auto begin = text_.begin();
    line_ += static_cast<std::size_t>(
        std::count(begin + static_cast<std::ptrdiff_t>(counted_), begin + static_cast<std::ptrdiff_t>(at_), U'\n'));
    counted_ = at_;
    return line_;
  }
  [[noreturn]] void fail(std::string_view what) {
    const std::size_t begin = at_ == 0 ? 0 : text_.rfind(U'\n', at_ - 1) + 1;
    throw UserError("{}:{}:{}: {}", source_, line(), at_ - std::min(at_, begin) + 1, what);
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek() const { return more() ? text_[at_] : 0; }
  bool take(std::u32string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void space(bool lines) {
    while (more()) {
      if (peek() == U'#')
        while (more() && peek() != U'\n') ++at_;
      else if (peek() == U' ' || peek() == U'\t' || (lines && (peek() == U'\n' || peek() == U'\r'))) ++at_;
      else break;
    }
  }
  static bool of_name(char32_t c) {
    return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') || c == U'-' || c == U'_';
  }
  std::string name() {
    std::string out;
    while (more() && of_name(peek())) out += static_cast<char>(text_[at_++]);
    if (out.empty()) fail("expected the name of a rule");
    return out;
  }
  std::uint32_t named(const std::string& name) {
    auto [it, fresh] = ids_.try_emplace(name, static_cast<std::uint32_t>(rules_.size()));
    if (fresh) rules_.push_back({name, {}, false, line()});
    return it->second;
  }
  std::uint32_t anonymous(std::vector<Sequence> alternatives) {
    rules_.push_back({"", std::move(alternatives), true, 0});
    return static_cast<std::uint32_t>(rules_.size() - 1);
  }
  Symbol terminal(std::vector<CodePoints> set) {
    set = united(std::move(set));
    std::vector<std::uint64_t> key;
    for (CodePoints c : set) key.push_back(std::uint64_t{c.first} << 32 | c.last);
    auto [it, fresh] = set_ids_.try_emplace(std::move(key), static_cast<std::uint32_t>(sets_.size()));
    if (fresh) sets_.push_back(std::move(set));
    return {true, it->second};
  }
  void count(std::size_t n) {
    if ((symbols_ += n) > kMaxSymbols) fail(fmt::format("the grammar is too large: more than {} symbols", kMaxSymbols));
  }

  std::vector<Sequence> expression(int depth) {
    if (depth > kDeepestGroup) fail("groups are nested too deeply");
    std::vector<Sequence> out;
    do {
      space(true);
      out.push_back(sequence(depth));
    } while (take(U"|"));
    return out;
  }

  Sequence sequence(int depth) {
    Sequence out;
    while (more()) {
      space(depth > 0);
      const std::size_t before = out.size();
      if (take(U"\"")) {
        while (!take(U"\"")) {
          if (!more() || peek() == U'\n') fail("a literal has no closing '\"'");
          const char32_t c = character();
          out.push_back(terminal({{c, c}}));
        }
      } else if (take(U"[")) {
        out.push_back(terminal(bracket()));
      } else if (take(U".")) {
        out.push_back(terminal({{0, Languages::kLast}}));
      } else if (take(U"(")) {
        auto inner = expression(depth + 1);
        space(true);
        if (!take(U")")) fail("a group has no ')'");
        out.push_back({false, anonymous(std::move(inner))});
      } else if (of_name(peek())) {
        out.push_back({false, named(name())});
      } else {
        break;
      }
      count(out.size() - before);
      repetitions(out, before);
    }
    return out;
  }

  // Applies *, +, ? or {m,n} to the symbols from `begin` on, which become a rule of their own.
  void repetitions(Sequence& out, std::size_t begin) {
    while (true) {
      std::uint32_t least, most = UINT32_MAX;
      if (take(U"*")) {
        least = 0;
      } else if (take(U"+")) {
        least = 1;
      } else if (take(U"?")) {
        least = 0, most = 1;
      } else if (take(U"{")) {
        space(false);
        least = number();
        space(false);
        most = least;
        if (take(U",")) {
          space(false);
          most = peek() == U'}' ? UINT32_MAX : number();
          space(false);
        }
        if (!take(U"}")) fail("expected '}'");
        if (least > most) fail("the numbers of a repetition are out of order");
      } else {
        return;
      }
      const Sequence body(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
      out.resize(begin);
      const Symbol one = body.size() == 1 ? body[0] : Symbol{false, anonymous({body})};
      count(2);  // of the rules, however often it repeats
      for (std::uint32_t i = 0; i < least; ++i) out.push_back(one), count(1);
      if (most == UINT32_MAX) {
        const std::uint32_t again = anonymous({});
        rules_[again].alternatives = {{one, {false, again}}, {}};
        out.push_back({false, again});
      } else if (most > least) {
        Sequence rest;
        for (std::uint32_t i = least; i < most; ++i) {
          Sequence here{one};
          here.insert(here.end(), rest.begin(), rest.end());
          rest = {{false, anonymous({here, {}})}};
          count(2);
        }
        out.push_back(rest[0]);
      }
    }
  }
  std::uint32_t number() {
    std::uint64_t n = 0;
    if (peek() < U'0' || peek() > U'9') fail("expected a number");
    while (peek() >= U'0' && peek() <= U'9')
      n = std::min<std::uint64_t>(n * 10 + (text_[at_++] - U'0'), kMaxSymbols + 1);
    if (n > kMaxSymbols) fail("too many repetitions");
    return static_cast<std::uint32_t>(n);
  }

  char32_t character() {
    const char32_t c = text_[at_++];
    if (c != U'\\') return c;
    if (!more()) fail("a backslash at the end");
    const char32_t e = text_[at_++];
    switch (e) {
      case U'n':
        return U'\n';
      case U't':
        return U'\t';
      case U'r':
        return U'\r';
      case U'x':
        return hex(2);
      case U'u':
        return hex(4);
      case U'U':
        return hex(8);
      case U'\\':
      case U'"':
      case U'[':
      case U']':
      case U'-':
      case U'^':
      case U'/':
        return e;
      default:
        fail("unknown escape");
    }
  }
  char32_t hex(int digits) {
    const std::optional<char32_t> value = hexadecimal(text_, at_, digits);
    if (!value) fail("a hexadecimal digit is missing");
    if (*value > Languages::kLast) fail("no code point is that large");
    return *value;
  }

  std::vector<CodePoints> bracket() {
    const bool inverse = take(U"^");
    std::vector<CodePoints> set;
    while (!take(U"]")) {
      if (!more() || peek() == U'\n') fail("a character class has no ']'");
      CodePoints c;
      c.first = c.last = character();
      if (peek() == U'-' && at_ + 1 < text_.size() && text_[at_ + 1] != U']') {
        ++at_;
        c.last = character();
        if (c.last < c.first) fail("the ends of a range are out of order");
      }
      set.push_back(c);
    }
    return inverse ? inverted(std::move(set)) : set;
  }

  std::string source_;
  std::u32string text_;
  std::size_t at_ = 0, symbols_ = 0, counted_ = 0, line_ = 1;
  std::vector<Rule> rules_;
  std::map<std::string, std::uint32_t> ids_;
  std::vector<std::vector<CodePoints>> sets_;
  std::map<std::vector<std::uint64_t>, std::uint32_t> set_ids_;  // by packed ranges
};

}  // namespace

GrammarRules parse_gbnf(std::string_view text, std::string_view source) {
  GrammarParser parser(text, source);
  GrammarRules out = parser.parse();
  check_grammar(out, source);
  return out;
}

}  // namespace dml
