// Strings and numbers as Python has them. What is expected was printed by python3-jinja2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "jinja/template.h"

namespace dml::jinja {
namespace {

TEST(PythonText, PrintsWhatPythonPrints) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({{ 'a b '.split(none, 1) }})", R"(['a', 'b '])"},
      {R"({{ ' a b'.rsplit(none, 1) }})", R"([' a', 'b'])"},
      {R"({{ ' a '.split(none, 0) }})", R"(['a '])"},
      {R"({{ ' a '.rsplit(none, 0) }})", R"([' a'])"},
      {R"({{ ' a b  c '.split(none, 1) }})", R"(['a', 'b  c '])"},
      {R"({{ ' '.split(none, 0) }})", R"([])"},
      {R"({{ 1e400 }} {{ -1e400 }} {{ 1e-400 }} {{ 4.9e-324 }})", R"(inf -inf 0.0 5e-324)"},
      {R"({{ '1e400'|float }} {{ '1_0.5'|float }} {{ '1__0'|float }} {{ '1_e5'|float(7) }} {{ '+-1'|float }} {{ '-inf'|float }} {{ 'nan(1)'|float }} {{ '٣.٥'|float }})",
       R"(inf 10.5 0.0 7 0.0 -inf 0.0 3.5)"},
      {R"({{ '1_0'|int }} {{ '٣'|int }} {{ '_1'|int }} {{ '1_'|int }} {{ '1__0'|int }} {{ '0x_f'|int(0, 16) }} {{ '-0b11'|int(0, 2) }} {{ '+ 1'|int }} {{ '+-1'|int }} {{ '-+1'|int }} {{ '--1'|int }} {{ '-9223372036854775808'|int }} {{ '𝟘𝟡𝟚'|int }} {{ '1.9'|int }})",
       R"(10 3 0 0 0 15 -3 0 0 0 0 -9223372036854775808 92 1)"},
      {R"({{ '%c|%3c|%-3c|%.0c' % (65, 'é', 8364, 'b') }})", R"(A|  é|€  |b)"},
      {R"({{ '²'.isdecimal() }} {{ '²'.isdigit() }} {{ '²'.isnumeric() }} {{ '½'.isdigit() }} {{ '½'.isnumeric() }} {{ '百'.isnumeric() }} {{ '百'.isalpha() }} {{ '½'.isalnum() }} {{ '٣'.isdigit() }} {{ 'Ⅷ'.isnumeric() }})",
       R"(False True True False True True True True True True)"},
      {R"({{ 'ﬁ'|upper }} {{ 'ßŉΐ'|upper }} {{ 'ᾳᾶᾷ'|upper }} {{ 'ẞİ'|upper }} {{ 'ǆ'|upper }} {{ 'և'|upper }})",
       R"(FI SSʼNΪ́ ΑΙΑ͂Α͂Ι ẞİ Ǆ ԵՒ)"},
      {R"({{ 'İ'|lower|length }} {{ 'ΑΣ ΣΑΣ. Σ Α\u0301Σ\u0301 ΑΣ\'Α'|lower }} {{ 'ẞ'|lower }})",
       R"(2 ας σας. σ άς́ ασ'α ß)"},
      {R"({{ 'ﬁx ΑΣ ßa'|title }} {{ 'ﬁx ΑΣ ßa'.title() }} {{ 'ßa ΑΣ'|capitalize }} {{ 'ǆ ŉa ᾳ ᾴ'.title() }} {{ 'ªb'.title() }})",
       R"(FIx Ασ SSa Fix Ας Ssa Ssa ας ǅ ʼNa ᾼ Άͅ ªb)"},
      {R"({{ 'ßﬁΣς'.casefold() }})", R"(ssfiσσ)"},
      {R"({{ range(0, 9223372036854775807, 9223372036854775806)|list }})", R"([0, 9223372036854775806])"},
      {R"({{ range(9223372036854775807, -9223372036854775807, -9223372036854775806)|list }})",
       R"([9223372036854775807, 1, -9223372036854775805])"},
      {R"({{ range(5, 0)|list }} {{ range(5, 0, -2)|list }} {{ range(0, 5, 2)|list }})", R"([] [5, 3, 1] [0, 2, 4])"},
      {R"({{ range(0, 10, 3) }} {{ range(3) }} {{ range(1, 10)[2:5] }} {{ range(0, 10, 2)[::-1] }})",
       R"(range(0, 10, 3) range(0, 3) range(3, 6) range(8, -2, -2))"},
  };
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(Template(source, "T").render(from_json(Json::object())).text, expected) << source;
}

// What is expected is Python's own arithmetic.
TEST(PythonText, CountsAtTheEndsOfTheRangeAsPythonDoes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"-9223372036854775807 // 3", "-3074457345618258603"},
      {"9223372036854775807 // -3", "-3074457345618258603"},
      {"(-9223372036854775807 - 1) // 7", "-1317624576693539402"},
      {"(-9223372036854775807 - 1) // 9223372036854775807", "-2"},
      {"(-9223372036854775807 - 1) % 9223372036854775807", "9223372036854775806"},
      {"-7 // 2", "-4"},
      {"-6 // 2", "-3"},
      {"4503599627370497.0 // 1", "4503599627370497.0"},
      {"9007199254740991.0 // 1.0", "9007199254740991.0"},
      {"-7.5 // 2", "-4.0"},
      {"7.5 // -2", "-4.0"},
      {"1.0 // 0.1", "9.0"},
      {"0.3 // 0.1", "2.0"},
      {"-1.0 // 1e400", "-1.0"},
      {"-1.0 % 1e400", "inf"},
      {"0.0 // -2", "-0.0"},
      {"4.0 % -2", "-0.0"},
      {"-4.0 % 2", "0.0"},
      {"-0.3 % 0.1", "2.7755575615628914e-17"},
      {"9223372036854775807|round(-18)", "9000000000000000000"},
      {"(-9223372036854775807)|round(-18)", "-9000000000000000000"},
      {"5000000000000000000|round(-19)", "0"},
      {"9223372036854775807|round(-20)", "0"},
      {"9223372036854775807|round(-300)", "0"},
      {"9007199254740993|round(-1)", "9007199254740990"},
      {"[15, 25, 35, -25, -26, 7]|map('round', -1)|list", "[20, 20, 40, -20, -30, 10]"},
      {"'Hello world'|truncate(9223372036854775807)", "Hello world"},
      {"'Hello world'|truncate(5, true, '', 9223372036854775807)", "Hello world"},
      {"'ab'|center(-9223372036854775807 - 1)", "ab"},
      {"'ab'.center(-9223372036854775807 - 1)", "ab"},
      {"'ab'.zfill(-9223372036854775807 - 1)", "ab"},
      {"'aba'.replace('a', 'c', -9223372036854775807 - 1)", "cbc"},
  };
  for (const auto& [expression, expected] : cases)
    EXPECT_EQ(Template("{{ " + expression + " }}", "T").render(from_json(Json::object())).text, expected) << expression;
}

TEST(PythonText, RefusesWhatPythonRefusesAndWhatDoesNotFit) {
  const auto error_of = [](const std::string& source) -> std::string {
    try {
      return "rendered: " + Template(source, "T").render(from_json(Json::object())).text;
    } catch (const UserError& e) {
      return e.what();
    }
  };
  EXPECT_THAT(error_of("{{ '%c' % 'ab' }}"), ::testing::HasSubstr("%c requires an integer or a text of one character"));
  EXPECT_THAT(error_of("{{ '%c' % 55296 }}"), ::testing::HasSubstr("55296 is not a character"));
  EXPECT_THAT(error_of("{{ '9223372036854775808'|int }}"), ::testing::HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(error_of("{{ 1e30|int }}"), ::testing::HasSubstr("int(): 1e+30 does not fit 64 bits"));
  for (const char* rounded :
       {"9223372036854775807|round(-1)", "9223372036854775807|round(-19)", "(-9223372036854775807 - 1)|round(-19)"})
    EXPECT_THAT(error_of(fmt::format("{{{{ {} }}}}", rounded)), ::testing::HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(error_of("{{ 'abc'|truncate(2) }}"), ::testing::HasSubstr("expected length >= 3, got 2"));
  EXPECT_THAT(error_of("{{ 'abc'|truncate(9, leeway=-1) }}"), ::testing::HasSubstr("expected leeway >= 0, got -1"));
  EXPECT_THAT(error_of("{{ range(0, 9223372036854775807) }}"), ::testing::HasSubstr("Range too big"));
  EXPECT_THAT(error_of("{{ range(-9223372036854775807, 9223372036854775807) }}"),
              ::testing::HasSubstr("Range too big"));
}

}  // namespace
}  // namespace dml::jinja
