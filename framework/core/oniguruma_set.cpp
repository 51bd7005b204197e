#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/oniguruma_set.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>

#include "core/utf8.h"

namespace dml {
namespace {

constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// \w and \b by themselves count these as letters, [\w] and \p{Word} do not: the first is Oniguruma's table of Latin-1.
constexpr std::string_view kLatinDigits = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr std::string_view kHex = "0-9a-fA-F";

struct NamedSet {
  std::string_view name, members;
  bool negated = false;
};

// POSIX names, for [[:name:]] and \p{name}; [[:punct:]] has symbols as well.
constexpr NamedSet kPosix[] = {{"alnum", "\\p{Alphabetic}\\p{Nd}"},
                               {"alpha", "\\p{Alphabetic}"},
                               {"ascii", "\\x{0}-\\x{7f}"},
                               {"blank", "\\p{Zs}\\t"},
                               {"cntrl", "\\p{Cc}"},
                               {"digit", "\\p{Nd}"},
                               {"graph", "\\p{White_Space}\\p{Cc}\\p{Cn}\\p{Cs}", true},
                               {"lower", "\\p{Lowercase}"},
                               {"print", "\\p{Cc}\\p{Cn}\\p{Cs}\\p{Zl}\\p{Zp}", true},
                               {"punct", "\\p{P}"},
                               {"space", "\\p{White_Space}"},
                               {"upper", "\\p{Uppercase}"},
                               {"word", kWord},
                               {"xdigit", kHex}};

// Long names of general categories; PCRE2 knows the short ones only.
constexpr NamedSet kCategories[] = {{"assigned", "\\p{Cn}", true},
                                    {"casedletter", "\\p{L&}"},
                                    {"closepunctuation", "\\p{Pe}"},
                                    {"connectorpunctuation", "\\p{Pc}"},
                                    {"control", "\\p{Cc}"},
                                    {"currencysymbol", "\\p{Sc}"},
                                    {"dashpunctuation", "\\p{Pd}"},
                                    {"decimalnumber", "\\p{Nd}"},
                                    {"enclosingmark", "\\p{Me}"},
                                    {"finalpunctuation", "\\p{Pf}"},
                                    {"format", "\\p{Cf}"},
                                    {"initialpunctuation", "\\p{Pi}"},
                                    {"lc", "\\p{L&}"},
                                    {"letter", "\\p{L}"},
                                    {"letternumber", "\\p{Nl}"},
                                    {"lineseparator", "\\p{Zl}"},
                                    {"lowercaseletter", "\\p{Ll}"},
                                    {"mark", "\\p{M}"},
                                    {"mathsymbol", "\\p{Sm}"},
                                    {"modifierletter", "\\p{Lm}"},
                                    {"modifiersymbol", "\\p{Sk}"},
                                    {"nonspacingmark", "\\p{Mn}"},
                                    {"number", "\\p{N}"},
                                    {"openpunctuation", "\\p{Ps}"},
                                    {"other", "\\p{C}"},
                                    {"otherletter", "\\p{Lo}"},
                                    {"othernumber", "\\p{No}"},
                                    {"otherpunctuation", "\\p{Po}"},
                                    {"othersymbol", "\\p{So}"},
                                    {"paragraphseparator", "\\p{Zp}"},
                                    {"privateuse", "\\p{Co}"},
                                    {"punctuation", "\\p{P}"},
                                    {"separator", "\\p{Z}"},
                                    {"spaceseparator", "\\p{Zs}"},
                                    {"spacingmark", "\\p{Mc}"},
                                    {"surrogate", "\\p{Cs}"},
                                    {"symbol", "\\p{S}"},
                                    {"titlecaseletter", "\\p{Lt}"},
                                    {"unassigned", "\\p{Cn}"},
                                    {"uppercaseletter", "\\p{Lu}"}};

template <std::size_t N>
std::optional<OnigurumaSet> find_named(const NamedSet (&table)[N], std::string_view name) {
  const auto row = std::find_if(table, table + N, [&](const NamedSet& set) { return set.name == name; });
  if (row == table + N) return std::nullopt;
  return OnigurumaSet{std::string(row->members), {}, row->negated};
}

bool is_script(const std::string& name) {
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// \p{name}; upper and lower case, spaces, '_' and '-' make no difference.
OnigurumaSet property(std::string_view text) {
  std::string name;
  for (char c : text)
    if (c != ' ' && c != '_' && c != '-') name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (auto set = find_named(kPosix, name)) return *set;
  if (auto set = find_named(kCategories, name)) return *set;
  return {fmt::format("\\p{{{}{}}}", is_script(name) ? "sc:" : "", name), {}};
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// [:name:] or [:^name:] at `at`, inside of a class.
std::optional<OnigurumaSet> read_posix(std::string_view pattern, std::size_t& at) {
  std::size_t begin = at + 2, end = pattern.find(":]", at);
  if (!pattern.substr(at).starts_with("[:") || end == pattern.npos || end < begin) return std::nullopt;
  const bool negated = pattern[begin] == '^';
  begin += negated;
  const std::string_view name = pattern.substr(begin, end - begin);
  if (!std::all_of(name.begin(), name.end(), is_letter)) return std::nullopt;
  auto set = find_named(kPosix, name);
  if (!set) set = OnigurumaSet{fmt::format("[:{}:]", name), {}};  // PCRE2 says that it is no such class
  if (name == "punct") set->members += "\\p{S}";
  set->negated ^= negated;
  at = end + 2;
  return set;
}

constexpr int kMaxClassDepth = 64;

// One class, read from left to right: unions, joined by &&.
class ClassReader {
 public:
  ClassReader(std::string_view pattern, std::size_t& at, int depth) : pattern_(pattern), at_(at), depth_(depth) {}

  OnigurumaSet read() {
    at_ = depth_ < kMaxClassDepth ? at_ + 1 : pattern_.size();
    const bool negated = next_is("^");
    at_ += negated;
    // "]" is a member where it comes first, if there is another one to end the class.
    if (next_is("]") && pattern_.find(']', at_ + 1) != pattern_.npos) {
      union_.members += "\\]";
      ++at_;
    }
    while (at_ < pattern_.size() && !next_is("]")) read_member();
    if (at_ == pattern_.size()) return {{}, {"["}};  // PCRE2 says that its end is missing
    ++at_;
    if (intersected_.empty()) {
      union_.negated = negated;
      return std::move(union_);
    }
    std::string all;
    for (const std::string& each : intersected_) all += fmt::format("(?={})", each);
    return {{}, {fmt::format("(?:{}{})", all, union_.expression())}, negated};
  }

 private:
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void read_member() {
    if (next_is("&&")) {
      at_ += 2;
      intersected_.push_back(union_.expression());
      union_ = {};
    } else if (next_is("[")) {
      auto set = read_posix(pattern_, at_);
      union_.add(set ? *set : ClassReader(pattern_, at_, depth_ + 1).read());
    } else if (auto set = read_set_escape(pattern_, at_, true)) {
      union_.add(*set);
    } else {
      union_.members += read_character(pattern_, at_, true);
      if (next_is("-") && ends_range(at_ + 1)) {
        ++at_;
        union_.members += '-' + read_character(pattern_, at_, true);
      }
    }
  }

  bool ends_range(std::size_t at) const {
    const std::string_view rest = pattern_.substr(at);
    return !rest.empty() && rest[0] != ']' && rest[0] != '[' && !rest.starts_with("&&") &&
           !read_set_escape(pattern_, at, true);
  }

  std::string_view pattern_;
  std::size_t& at_;
  int depth_;
  OnigurumaSet union_;
  std::vector<std::string> intersected_;  // all but the last
};

}  // namespace

void OnigurumaSet::add(const OnigurumaSet& other) {
  if (other.negated) {
    const bool one_property = other.others.empty() && other.members.starts_with("\\p{") &&
                              other.members.find('}') + 1 == other.members.size();
    if (one_property) members += "\\P" + other.members.substr(2);
    else others.push_back(other.expression());
    return;
  }
  members += other.members;
  others.insert(others.end(), other.others.begin(), other.others.end());
}

std::string OnigurumaSet::expression() const {
  if (others.empty()) return members.empty() ? "(?!)" : fmt::format("[{}{}]", negated ? "^" : "", members);
  std::string any = others[0];
  if (others.size() > 1 || !members.empty()) {
    any = members.empty() ? "" : fmt::format("[{}]|", members);
    any = fmt::format("(?:{}{})", any, fmt::join(others, "|"));
  }
  return negated ? fmt::format("(?:(?!{})\\p{{Any}})", any) : any;
}

std::optional<OnigurumaSet> read_set_escape(std::string_view pattern, std::size_t& at, bool in_class) {
  if (pattern[at] != '\\' || at + 1 == pattern.size()) return std::nullopt;
  const char e = pattern[at + 1];
  if (e == 'p' || e == 'P') {
    std::size_t begin = at + 3, end = pattern.find('}', at);
    if (pattern.substr(at + 2, 1) != "{" || end == pattern.npos) return std::nullopt;
    const bool negated = pattern[begin] == '^';
    begin += negated;
    OnigurumaSet set = property(pattern.substr(begin, end - begin));
    set.negated ^= negated != (e == 'P');
    if (!in_class && set.members == kWord) set.members += kLatinDigits;
    at = end + 1;
    return set;
  }
  const char kind = e | 0x20;
  if (kind != 's' && kind != 'w' && kind != 'h' && kind != 'd') return std::nullopt;
  at += 2;
  const std::string_view name = kind == 's' ? "space" : kind == 'w' ? "word" : kind == 'h' ? "xdigit" : "digit";
  OnigurumaSet set = *find_named(kPosix, name);
  set.negated = e != kind;
  if (!in_class && kind == 'w') set.members += kLatinDigits;
  return set;
}

std::string read_character(std::string_view pattern, std::size_t& at, bool in_class) {
  const std::size_t begin = at;
  if (pattern[at] != '\\' || at + 1 == pattern.size()) {
    next_code_point(pattern, at);
    const char c = pattern[begin];
    const bool special = in_class && std::string_view("\\[]^-").find(c) != std::string_view::npos;
    return (special ? "\\" : "") + std::string(pattern.substr(begin, at - begin));
  }
  const char e = pattern[begin + 1];
  next_code_point(pattern, ++at);
  const std::string text(pattern.substr(begin + 1, at - begin - 1));
  const std::string_view rest = pattern.substr(at);
  auto keep = [&](std::size_t more) {  // the escape as it is, with what belongs to it
    at = std::min(at + more, pattern.size());
    return std::string(pattern.substr(begin, at - begin));
  };
  auto digits = [&](std::string_view kind, std::size_t most) {
    return std::min({rest.find_first_not_of(kind), rest.size(), most});
  };
  constexpr std::string_view hex = "0123456789abcdefABCDEF";
  if (is_digit(e)) return keep(digits("0123456789", in_class ? 2 : rest.size()));
  if ((e == 'x' || e == 'o') && rest.starts_with('{')) return keep(std::min(rest.find('}'), rest.size() - 1) + 1);
  if (e == 'x') return keep(digits(hex, 2));
  if (e == 'u' && digits(hex, 4) == 4) {
    at += 4;
    return fmt::format("\\x{{{}}}", rest.substr(0, 4));
  }
  if (e == 'v') return "\\x{b}";
  if (in_class && e == 'b') return "\\x{8}";
  if (e == 'c') return keep(1);
  if (!is_letter(e)) return (static_cast<unsigned char>(e) < 0x80 ? "\\" : "") + text;
  // Other letters mean themselves. PCRE2 refuses \C-x and \M-x.
  return std::string_view("tnrfaeCM").find(e) != std::string_view::npos ? "\\" + text : text;
}

std::string read_class(std::string_view pattern, std::size_t& at) {
  return ClassReader(pattern, at, 0).read().expression();
}

std::string word_border(bool inside) {
  const std::string word = fmt::format("[{}{}]", kWord, kLatinDigits);
  return fmt::format("(?:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, inside ? '=' : '!', inside ? '!' : '=');
}

}  // namespace dml
