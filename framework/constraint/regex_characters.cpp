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

using Pairs = std::vector<std::pair<char32_t, char32_t>>;

// Sorted, and ranges that touch as one.
std::vector<CodePoints> normalized(std::vector<CodePoints> set) {
  std::ranges::sort(set, {}, &CodePoints::first);
  std::vector<CodePoints> out;
  for (CodePoints c : set) {
    if (!out.empty() && c.first <= out.back().last + 1) out.back().last = std::max(out.back().last, c.last);
    else out.push_back(c);
  }
  return out;
}

// Adds the second letter of each pair whose first is in `set`, which is normalized, unless it is there as well.
void add_second(const Pairs& pairs, const std::vector<CodePoints>& set, std::vector<CodePoints>& out) {
  for (CodePoints c : set)
    for (auto pair = std::ranges::lower_bound(pairs, std::pair(c.first, U'\0')); pair != pairs.end(); ++pair) {
      const auto [letter, other] = *pair;
      if (letter > c.last) break;
      const auto behind = std::ranges::upper_bound(set, other, {}, &CodePoints::first);
      if (behind == set.begin() || std::prev(behind)->last < other) out.push_back({other, other});
    }
}

// The code points of every general category by its one or two letters, all found in one pass.
std::map<std::string, std::vector<CodePoints>> all_categories() {
  std::map<utf8proc_category_t, std::vector<CodePoints>> sets;
  std::vector<CodePoints>* last = nullptr;
  for (char32_t c = 0; c <= Languages::kLast; ++c) {
    std::vector<CodePoints>& set = sets[utf8proc_category(static_cast<utf8proc_int32_t>(c))];
    if (last == &set) set.back().last = c;
    else set.push_back({c, c});
    last = &set;
  }
  std::map<std::string, std::vector<CodePoints>> out;
  for (auto& [category, set] : sets) {
    const std::string name = utf8proc_category_string(static_cast<utf8proc_int32_t>(set[0].first));
    for (const std::string& letters : {name, name.substr(0, 1)}) {
      auto& all = out[letters];
      all.insert(all.end(), set.begin(), set.end());
      all = normalized(std::move(all));
    }
  }
  return out;
}

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

const std::vector<CodePoints>& general_category(const std::string& name) {
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
  static const auto kCategories = all_categories();
  static const std::vector<CodePoints> kNone;
  const auto alias = kLong.find(name);
  const auto found = kCategories.find(alias == kLong.end() ? name : alias->second);
  return found == kCategories.end() ? kNone : found->second;
}

std::optional<char32_t> hexadecimal(std::u32string_view text, std::size_t& at, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char32_t c = at < text.size() ? text[at++] : 0, low = c | 32;
    if (c >= U'0' && c <= U'9') value = value << 4 | (c - U'0');
    else if (low >= U'a' && low <= U'f') value = value << 4 | (low - U'a' + 10);
    else return std::nullopt;
  }
  return value;
}

bool contains(const std::vector<CodePoints>& set, char32_t c) {
  return std::ranges::any_of(set, [&](CodePoints range) { return range.first <= c && c <= range.last; });
}

std::vector<CodePoints> both_cases(std::vector<CodePoints> set) {
  static const auto kPairs = [] {  // capitals with their small letters, and the other way round
    std::pair<Pairs, Pairs> out;
    for (char32_t c = 0; c <= Languages::kLast; ++c)
      if (auto small = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); small != c) {
        out.first.push_back({c, small});
        out.second.push_back({small, c});
      }
    std::ranges::sort(out.second);
    return out;
  }();
  set = normalized(std::move(set));
  std::vector<CodePoints> out = set;
  add_second(kPairs.first, set, out);
  add_second(kPairs.second, set, out);
  return out;
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
