#include "constraint/regex_characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

namespace dml {
namespace {

const std::vector<CodePoints> kDigits{{'0', '9'}}, kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CodePoints> kSpace{{9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680},
                                     {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                     {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

}  // namespace

std::vector<CodePoints> class_escape(char32_t letter) {
  switch (letter) {
    case U'd':
      return kDigits;
    case U'D':
      return inverted(kDigits);
    case U'w':
      return kWord;
    case U'W':
      return inverted(kWord);
    case U's':
      return kSpace;
    case U'S':
      return inverted(kSpace);
    default:
      return {};
  }
}

int control_escape(char32_t letter) {
  switch (letter) {
    case U'n':
      return '\n';
    case U'r':
      return '\r';
    case U't':
      return '\t';
    case U'f':
      return '\f';
    case U'v':
      return '\v';
    case U'0':
      return 0;
    default:
      return -1;
  }
}

std::vector<CodePoints> general_category(const std::string& name) {
  static const std::map<std::string, std::string> kLong{{"Letter", "L"},
                                                        {"Lowercase_Letter", "Ll"},
                                                        {"Uppercase_Letter", "Lu"},
                                                        {"Mark", "M"},
                                                        {"Number", "N"},
                                                        {"Decimal_Number", "Nd"},
                                                        {"digit", "Nd"},
                                                        {"Punctuation", "P"},
                                                        {"punct", "P"},
                                                        {"Symbol", "S"},
                                                        {"Separator", "Z"},
                                                        {"Other", "C"},
                                                        {"Control", "Cc"},
                                                        {"cntrl", "Cc"}};
  auto alias = kLong.find(name);
  const std::string wanted = alias == kLong.end() ? name : alias->second;
  std::vector<CodePoints> out;
  if (wanted.empty() || wanted.size() > 2) return out;
  for (char32_t c = 0; c <= Languages::kLast; ++c) {
    const char* is = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
    if (is[0] != wanted[0] || (wanted.size() == 2 && is[1] != wanted[1])) continue;
    if (!out.empty() && out.back().last + 1 == c) out.back().last = c;
    else out.push_back({c, c});
  }
  return out;
}

bool contains(const std::vector<CodePoints>& set, char32_t c) {
  return std::ranges::any_of(set, [&](CodePoints range) { return range.first <= c && c <= range.last; });
}

std::vector<CodePoints> both_cases(std::vector<CodePoints> set) {
  static const auto kPairs = [] {  // capitals with their small letters
    std::vector<std::pair<char32_t, char32_t>> out;
    for (char32_t c = 0; c <= Languages::kLast; ++c)
      if (auto small = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); small != c)
        out.push_back({c, small});
    return out;
  }();
  const std::vector<CodePoints> before = set;
  for (auto [capital, small] : kPairs) {
    const bool has_capital = contains(before, capital), has_small = contains(before, small);
    if (has_capital != has_small) set.push_back(has_capital ? CodePoints{small, small} : CodePoints{capital, capital});
  }
  return set;
}

std::vector<CodePoints> inverted(std::vector<CodePoints> set) {
  std::sort(set.begin(), set.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<CodePoints> out;
  char32_t at = 0;
  for (CodePoints c : set) {
    if (c.first > at) out.push_back({at, c.first - 1});
    at = std::max<char32_t>(at, c.last + 1);
  }
  if (at <= Languages::kLast) out.push_back({at, Languages::kLast});
  return out;
}

}  // namespace dml
