#include "evaluate/checks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/files.h"
#include "evaluate/eval_run.h"
#include "temporary_folder.h"

namespace dml {
namespace {

Verdict verdict(const CheckRequest& request, const std::string& output, const Json& row) {
  return checks().at(request.name).make(request)->check({"", "", output}, row);
}
bool passes(const std::string& name, const Json& value, const std::string& output, const Json& row) {
  return verdict({name, value}, output, row).pass;
}
std::string refused(const CheckRequest& request) {
  try {
    checks().at(request.name).make(request);
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Checks, CompareWithTheExpectedAnswer) {
  EXPECT_TRUE(passes("exact", nullptr, " Paris\n", {{"expected", "Paris "}}));
  EXPECT_FALSE(passes("exact", nullptr, "Paris.", {{"expected", "Paris"}}));
  EXPECT_TRUE(passes("exact", nullptr, "Rome", {{"expected", {"Paris", "Rome"}}}));
  EXPECT_TRUE(passes("contains", nullptr, "It is Paris.", {{"expected", "Paris"}}));
  EXPECT_FALSE(passes("contains", nullptr, "It is paris.", {{"expected", "Paris"}}));
  auto exact = checks().at("exact").make({"exact", nullptr});
  EXPECT_NE(exact->problem_with({{"prompt", "?"}}), "");
  EXPECT_NE(exact->problem_with({{"expected", 3}}), "");
  EXPECT_EQ(exact->problem_with({{"expected", "x"}}), "");
}

TEST(Checks, SearchForRegularExpressions) {
  EXPECT_TRUE(passes("regex", "[0-9]{4}", "born in\n1975, they say", {}));
  EXPECT_FALSE(passes("regex", "^[0-9]{4}$", "born in 1975", {}));
  EXPECT_TRUE(passes("regex", nullptr, "yes", {{"regex", "^(yes|no)$"}}));
  EXPECT_FALSE(passes("regex", "Answer:.*42", "Answer: 7\n42 more", {})) << "as in Python, . is no line break";
  EXPECT_TRUE(passes("regex", "(?s)Answer:.*42", "So:\nAnswer: 7\n42 more", {}));
  EXPECT_NE(refused({"regex", "(["}).find("regular expression"), std::string::npos);
  EXPECT_NE(refused({"regex", 3}), "");

  const auto slow = checks().at("regex").make({"regex", "(a+)+$"});
  EXPECT_FALSE(slow->check({"", "", std::string(60, 'a') + "b"}, {}).counts);
  EXPECT_THAT(slow->problems(), testing::ElementsAre(testing::HasSubstr("takes too many steps")));
  EXPECT_TRUE(slow->check({"", "", "a"}, {}).counts);
}

// Values by lm-evaluation-harness' own filters and exact_match (Python's re.findall, re.sub, str.lower), made by hand.
TEST(Checks, MatchTheFilteredAnswer) {
  const Json strict{
      {"filter", {{{"function", "regex"}, {"regex_pattern", R"(#### (\-?[0-9\.\,]+))"}}, {{"function", "take_first"}}}},
      {"regexes_to_ignore", {",", R"(\$)", "(?s).*#### ", R"(\.$)"}},
      {"ignore_case", true}};
  const Json row{{"expected", "12 * 100 = 1200.\n#### 1,200"}};
  auto pass = [&](const Json& options, const std::string& output) {
    return verdict({"exact_match", nullptr, options}, output, row).pass;
  };
  EXPECT_TRUE(pass(strict, "So it is 1200.\n#### 1200\n"));
  EXPECT_TRUE(pass(strict, "#### 1,200. #### 7"));  // the first one, and a point at the end is ignored
  EXPECT_FALSE(pass(strict, "It is 1200."));
  Json flexible = strict;
  flexible["filter"] = {
      {{"function", "regex"}, {"group_select", -1}, {"regex_pattern", "(-?[$0-9.,]{2,})|(-?[0-9]+)"}}};
  EXPECT_TRUE(pass(flexible, "Of 7 and 8 we get $1,200."));
  EXPECT_FALSE(pass(flexible, "1200, or perhaps 5"));
  EXPECT_FALSE(pass(flexible, "no number"));
  const Json loose{{"filter", {{{"function", "remove_whitespace"}}, {{"function", "lowercase"}}}},
                   {"ignore_punctuation", true},
                   {"ignore_numbers", true}};
  EXPECT_TRUE(verdict({"exact_match", nullptr, loose}, "\n The Cat!", {{"expected", "the cat 9"}}).pass == false);
  EXPECT_TRUE(verdict({"exact_match", nullptr, loose}, "\n The, Cat9!", {{"expected", {"dog", "the cat"}}}).pass);
  const Json unicode{{"filter", {{{"function", "remove_whitespace"}}}}, {"ignore_case", true}};
  EXPECT_TRUE(verdict({"exact_match", nullptr, unicode}, "\u00a0\u00c9COLE", {{"expected", "\u00e9cole"}}).pass);
  EXPECT_NE(refused({"exact_match", nullptr, {{"filter", {{{"function", "map"}}}}}}).find("unknown filter 'map'"),
            std::string::npos);
  EXPECT_NE(refused({"exact_match", nullptr, {{"regexes_to_ignore", {"(["}}}}).find("regular expression"),
            std::string::npos);
}

TEST(Checks, ReadJsonAndSchemas) {
  EXPECT_TRUE(passes("json_valid", nullptr, "\n{\"a\": [1, 2]}\n", {}));
  EXPECT_FALSE(passes("json_valid", nullptr, "{\"a\": }", {}));
  EXPECT_FALSE(passes("json_valid", nullptr, "Sure! {\"a\": 1}", {}));
  const Json schema = Json::parse(
      R"({"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]})");
  EXPECT_TRUE(passes("json_schema", schema, "{ \"age\" : 3 }", {}));
  EXPECT_FALSE(passes("json_schema", schema, "{\"age\": -3}", {}));
  EXPECT_FALSE(passes("json_schema", schema, "no JSON", {}));
  EXPECT_TRUE(passes("json_schema", nullptr, "{\"age\": 3}", {{"schema", schema}}));
  EXPECT_NE(refused({"json_schema", {{"type", "number or so"}}}), "");
  EXPECT_NE(refused({"json_schema", "/there/is/no/such/file.json"}), "");
}

// Numbers are compared by value, whatever spelling the answer or the JSON library gives them.
TEST(Checks, CompareNumbersOfAnySizeWithASchema) {
  const Json share = Json::parse(R"({"type": "number", "minimum": 0, "maximum": 1})");
  for (const char* answer : {"0.00001", "1e-5", "0", "1.0", "10E-1", "-0.0", "4e-300", "5e-324"})
    EXPECT_TRUE(passes("json_schema", share, answer, {})) << answer;
  for (const char* answer : {"-0.00001", "-1e-300", "1.00001", "1e30", "\"0.00001\""})
    EXPECT_FALSE(passes("json_schema", share, answer, {})) << answer;
  const Json large = Json::parse(R"({"items": {"minimum": 0, "multipleOf": 10}, "maxItems": 3})");
  EXPECT_TRUE(passes("json_schema", large, "[1e30, 20.0, 1e300]", {}));
  EXPECT_FALSE(passes("json_schema", large, "[1e30, 25]", {}));
  EXPECT_TRUE(passes("json_schema", nullptr, "[1e300, \"\\\"1e5\"]", {{"schema", {{"enum", {{1e300, "\"1e5"}}}}}}));
}

// ---- judges

class Judges : public testing::Test {
 protected:
  /// `timeout`: seconds; only a hang takes so long.
  CheckRequest judge(const std::string& script, double timeout = 250) const {
    write_file(folder_ / "judge.sh", script);
    return {"command", Json::array({"/bin/sh", folder_ / "judge.sh"}), {{"timeout", timeout}, {"name", "judge"}}};
  }
  testing_tools::TemporaryFolder folder_;
};

TEST_F(Judges, KeepRunningAndAnswerLineByLine) {
  auto check = checks().at("command").make(
      judge("n=0; while read line; do n=$((n+1)); case \"$line\" in *good*) echo '{\"pass\": true, \"score\": 0.75, "
            "\"critique\": \"fine\"}';; *) echo \"{\\\"score\\\": 0.$n}\";; esac; done"));
  const Verdict first = check->check({"p", "r", "good"}, {{"id", 1}});
  EXPECT_TRUE(first.counts && first.pass);
  EXPECT_EQ(*first.score, 0.75);
  EXPECT_EQ(first.critique, "fine");
  const Verdict second = check->check({"p", "r", "bad"}, {});
  EXPECT_TRUE(second.counts);
  EXPECT_EQ(*second.score, 0.2) << "the same process answers";
  EXPECT_FALSE(second.pass);
  EXPECT_EQ(check->name(), "judge");
  EXPECT_TRUE(check->problems().empty());
}

TEST_F(Judges, ThatFailNeverEndTheRun) {
  const std::pair<const char*, const char*> bad[] = {
      {"read line; exit 3", "ended before it answered"},
      {"read line; sleep 1000", "did not answer within"},
      {"while :; do printf 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; done",
       "more than a megabyte"},
      {"while read line; do echo rubbish; done", "not JSON"},
      {"while read line; do echo '{\"verdict\": 1}'; done", "without 'pass' or 'score'"},
      {"while read line; do printf '{\"pass\": true}\\n{\"pass\": true}\\n'; done", "more than one line"},
  };
  for (auto& [script, says] : bad) {
    const bool hangs = std::string(script).find("sleep") != std::string::npos;
    auto check = checks().at("command").make(hangs ? judge(script, 0.3) : judge(script));
    int failed = 0;
    for (int i = 0; i < 5; ++i) failed += !check->check({"p", "r", "o"}, {}).counts;
    EXPECT_GE(failed, 2) << script;
    ASSERT_FALSE(check->problems().empty()) << script;
    EXPECT_NE(check->problems()[0].find(says), std::string::npos) << check->problems()[0];
  }
}

TEST_F(Judges, AreNamedAsTheyWereWritten) {
  for (const Json& command : {Json("false --strict"), Json::array({"false", "--strict"})}) {
    auto check = checks().at("command").make({"command", command});
    check->check({"p", "r", "o"}, {});
    ASSERT_FALSE(check->problems().empty());
    EXPECT_TRUE(check->problems()[0].starts_with("judge 'false --strict' ")) << check->problems()[0];
  }
}

TEST_F(Judges, AreLookedUpBeforeTheRun) {
  EXPECT_NE(refused({"command", "no_such_program_at_all --flag"}).find("no_such_program_at_all"), std::string::npos);
  EXPECT_NE(refused({"command", Json::array({"no_such_program_at_all"})}), "");
  EXPECT_NE(refused({"command", nullptr}), "");
  EXPECT_NE(refused({"command", "cat", {{"timeout", -1}}}), "");
}

// Residuals of three rows around 42/21: −10, 8 and 2.
TEST(EvalMetrics, TheErrorOfARatioWeighsRowsByTheirCounts) {
  EXPECT_NEAR(ratio_error({10, 28, 4}, {10, 10, 1}), std::sqrt((100.0 + 64 + 4) * 3 / 2) / 21, 1e-12);
  EXPECT_NEAR(ratio_error({1, 2, 6}, {1, 1, 1}), mean_and_error({1, 2, 6}).error, 1e-12);
  EXPECT_EQ(ratio_error({2}, {1}), 0);
  EXPECT_EQ(ratio_error({0, 0}, {0, 0}), 0);
}

}  // namespace
}  // namespace dml
