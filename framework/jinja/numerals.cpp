// Digits and numbers among the characters, where utf8proc knows only the general category.
#include <algorithm>
#include <iterator>
#include <utility>

#include "jinja/unicode.h"

namespace dml::jinja {
namespace {

/// Unicode's Numeric_Type=Digit: digits in a form of their own, such as ² and ⑦.
constexpr std::pair<char32_t, char32_t> kDigitForms[] = {
    {0xb2, 0xb3},     {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247c},   {0x2488, 0x2490},
    {0x24ea, 0x24ea}, {0x24f5, 0x24fd},   {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},
    {0x278a, 0x2792}, {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a}};

/// The letters with a numeric value: ideographs.
constexpr std::u32string_view kNumericLetters =
    U"㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百"
    U"肆萬貮貳贰阡陆陌陸零\U0000f96b\U0000f973\U0000f978\U0000f9b2\U0000f9d1\U0000f9d3\U0000f9fd"
    U"\U00020001\U00020064\U000200e2\U00020121\U0002092a\U00020983\U0002098c\U0002099c\U00020aea"
    U"\U00020afd\U00020b19\U00022390\U00022998\U00023b1b\U0002626d\U0002f890";

}  // namespace

bool is_digit(char32_t c) {
  return is_decimal(c) || std::any_of(std::begin(kDigitForms), std::end(kDigitForms),
                                      [&](const auto& range) { return c >= range.first && c <= range.second; });
}
bool is_numeric(char32_t c) { return is_number(c) || kNumericLetters.find(c) != std::u32string_view::npos; }
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

int decimal_value(char32_t c) {
  // Decimals come in sets of ten, from 0 to 9; mathematical ones in five sets without a gap.
  int behind = 0;
  while (is_decimal(c - static_cast<char32_t>(behind) - 1)) ++behind;
  return behind % 10;
}

}  // namespace dml::jinja
