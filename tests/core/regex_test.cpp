#include "core/regex.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace dml {
namespace {

Regex python(std::string_view pattern) { return Regex(pattern, RegexSyntax::python, "r.yml:3:1"); }

std::string error_of(std::string_view pattern, RegexSyntax syntax) {
  try {
    Regex(pattern, syntax, "here");
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
  EXPECT_EQ(error_of("a(b", RegexSyntax::python),
            "here: regular expression 'a(b', character 4: missing closing parenthesis");
  EXPECT_EQ(Regex::problem("ö*(", RegexSyntax::python), "character 4: missing closing parenthesis");
  // \s and \w become longer when they are translated.
  EXPECT_EQ(Regex::problem("\\s\\w\\h*+*", RegexSyntax::oniguruma).substr(0, 13), "character 9: ");
  EXPECT_EQ(Regex::problem("\\s+", RegexSyntax::oniguruma), "");
  EXPECT_THAT(error_of(std::string(5000, 'a'), RegexSyntax::python),
              testing::HasSubstr(": it has 5000 bytes, the limit is 4096"));
}

TEST(Regex, FindsAllMatchesOfTheTokenizersSyntax) {
  struct Range {
    std::uint32_t begin, end;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> found;
  Regex("\\w+|\\h", RegexSyntax::oniguruma, "t").find_all(std::string_view("ab ² c"), found);
  EXPECT_EQ(found, (std::vector<Range>{{0, 2}, {3, 5}, {6, 7}}));
  Regex("x*", RegexSyntax::oniguruma, "t").find_all(std::string_view("axxb"), found);
  EXPECT_EQ(found, (std::vector<Range>{{1, 3}}));
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

}  // namespace
}  // namespace dml
