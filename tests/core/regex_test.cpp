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
  // \s, \w and intervals become longer when they are translated.
  EXPECT_EQ(Regex::problem("\\s\\w{2}+\\y[a", RegexSyntax::oniguruma).substr(0, 13), "character 10:");
  EXPECT_EQ(Regex::problem("(?i)\\w[a", RegexSyntax::oniguruma),
            "character 9: missing terminating ] for character class");
  EXPECT_EQ(Regex::problem(std::string(4000, '['), RegexSyntax::oniguruma),
            "character 2: missing terminating ] for character class");
  EXPECT_EQ(Regex::problem("[[:foo:]]", RegexSyntax::oniguruma), "character 1: unknown POSIX class name");
  EXPECT_THAT(Regex::problem("\\p{Nope}", RegexSyntax::oniguruma), testing::HasSubstr("unknown property"));
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
  EXPECT_EQ(found, (std::vector<Range>{{0, 0}, {1, 3}, {4, 4}}));  // none right behind a match
  Regex("x*", RegexSyntax::oniguruma, "t").find_all(std::string_view(""), found);
  EXPECT_EQ(found, (std::vector<Range>{}));
  Regex("\\b", RegexSyntax::oniguruma, "t").find_all(std::string_view("é ü"), found);
  EXPECT_EQ(found, (std::vector<Range>{{0, 0}, {2, 2}, {3, 3}, {5, 5}}));
}

TEST(Regex, RepeatsAGroupOverALongWord) {
  struct Range {
    std::uint32_t begin, end;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> found;
  const std::string text(20000, 'a');
  for (const char* pattern : {"((?=[\\p{L}])([^A-Z]))+", "[\\p{L}&&[^\\p{Han}]]*[\\p{L}&&[^A-Z]]+"}) {
    Regex(pattern, RegexSyntax::oniguruma, "t").find_all(text, found);
    EXPECT_EQ(found, (std::vector<Range>{{0, 20000}})) << pattern;
  }
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
