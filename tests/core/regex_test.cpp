#include "core/regex.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace dml {
namespace {

Regex python(std::string_view pattern) { return Regex(pattern, "r.yml:3:1"); }

std::string error_of(std::string_view pattern) {
  try {
    Regex(pattern, "here");
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Regex, MatchesTheWholeTextOrItsBeginning) {
  EXPECT_TRUE(python("a|ab").matches("ab"));  // as re.fullmatch: the second alternative is tried, too
  EXPECT_FALSE(python("a").matches("ab"));
  EXPECT_FALSE(python("b").matches("ab"));
  EXPECT_TRUE(python("a").matches_start("ab"));
  EXPECT_FALSE(python("b").matches_start("ab"));
  EXPECT_FALSE(python("model\\.norm\\Z").matches_start("model.norm.weight"));
}

TEST(Regex, ReadsWhatPythonReads) {
  EXPECT_TRUE(python("(?i).*Q_PROJ").matches("model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(python(".*(?<!cross_)attn").matches("model.cross_attn"));
  EXPECT_TRUE(python("(?P<part>mlp|attn)\\.(?P=part)").matches("mlp.mlp"));
  EXPECT_TRUE(python("\\w+").matches("größe"));
}

TEST(Regex, NamesThePlaceOfAnErrorInThePatternAsItWasWritten) {
  EXPECT_EQ(error_of("a(b"), "here: regular expression 'a(b', character 4: missing closing parenthesis");
  EXPECT_EQ(Regex::problem("ö*("), "character 4: missing closing parenthesis");
  EXPECT_THAT(error_of(std::string(5000, 'a')), testing::HasSubstr(": it has 5000 bytes, the limit is 4096"));
}

TEST(Regex, StopsWhereBacktrackingWouldNotEnd) {
  const std::string text = std::string(60, 'a') + "b";
  EXPECT_THROW(python("(a+)+$").matches(text), UserError);
  try {
    python("(a+)+$").matches(text);
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()),
              "r.yml:3:1: regular expression '(a+)+$' takes too many steps on a text of 61 bytes");
  }
}

TEST(Regex, ATextThatIsNotUtf8IsToldApartFromTooManySteps) {
  EXPECT_THAT([] { python("a+").matches("aa\xff"); },
              testing::ThrowsMessage<UserError>(
                  testing::AllOf(testing::HasSubstr("r.yml:3:1: regular expression 'a+' fails (UTF-8 error: "),
                                 testing::EndsWith(") on a text of 3 bytes"))));
}

}  // namespace
}  // namespace dml
