// Rewards: what checks are worth, and what is said when one cannot be computed.
#include "evaluate/rewards.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

EvalRow row(Json json) { return {std::move(json), "rows.jsonl:7"}; }

std::vector<double> values(const std::vector<CheckRequest>& requests, const EvalRow& r, const std::string& output) {
  Rewards rewards(requests);
  const EvalAnswer answer{"prompt", "", output};
  const EvalRow* rows[] = {&r};
  std::vector<double> out;
  for (const auto& each : rewards.of({&answer, 1}, rows)) out.push_back(each.at(0));
  return out;
}

std::string refused(const std::vector<CheckRequest>& requests) {
  try {
    Rewards rewards(requests);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

std::string failed(const Json& command, Json options = Json::object()) {
  try {
    values({{"command", command, std::move(options)}}, row({{"prompt", "p"}}), "x");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(Rewards, AreChecksAsNumbers) {
  const EvalRow r = row({{"expected", "12"}, {"choices", {"ten", "twelve"}}, {"answer", 1}});
  EXPECT_EQ(values({{"exact", nullptr}, {"regex", "[0-9]+"}}, r, " 12\n"), (std::vector<double>{1, 1}));
  EXPECT_EQ(values({{"exact", nullptr}, {"regex", "[0-9]+"}}, r, "13"), (std::vector<double>{0, 1}));
  EXPECT_EQ(values({{"choice", nullptr}}, r, "twelve "), (std::vector<double>{1}));
  EXPECT_EQ(values({{"choice", nullptr}}, r, "ten"), (std::vector<double>{0}));
}

TEST(Rewards, ALongAnswerHasALowerReward) {
  EXPECT_EQ(values({{"length", 4}}, row({}), "äöü!"), (std::vector<double>{1}));
  EXPECT_EQ(values({{"length", 4}}, row({}), "abcdef"), (std::vector<double>{.5}));
  EXPECT_EQ(values({{"length", 4}}, row({}), "abcdefghijkl"), (std::vector<double>{0}));
}

TEST(Rewards, HaveNamesAndWeights) {
  const Rewards rewards({{"regex", "a", {{"name", "has_a"}, {"weight", .5}}}, {"regex", "b"}});
  EXPECT_EQ(rewards.names(), (std::vector<std::string>{"has_a", "regex"}));
  EXPECT_EQ(rewards.weights(), (std::vector<double>{.5, 1}));
}

TEST(Rewards, AProgramScores) {
  const Json program = {
      "python3", "-uc",
      "import sys, json\nfor l in sys.stdin: print(json.dumps({'score': len(json.loads(l)['output'])}))"};
  EXPECT_EQ(values({{"command", program}}, row({}), "abc"), (std::vector<double>{3}));
}

TEST(Rewards, ReportTheirErrors) {
  const std::string all = refused({{"exat", nullptr},
                                   {"perplexity", nullptr},
                                   {"exact", nullptr, {{"wieght", 2}}},
                                   {"length", "long"},
                                   {"json_valid", nullptr},
                                   {"json_valid", nullptr}});
  EXPECT_EQ(refused({{"length", 40, {{"weight", "x"}}}}), "rewards: length: 'weight' must be a number, is \"x\"");
  for (const char* part :
       {"unknown reward 'exat'; did you mean 'exact'?", "'perplexity' measures texts", "no option 'wieght'",
        "check 'length' takes a number", "two rewards are called 'json_valid'"})
    EXPECT_NE(all.find(part), all.npos) << part << " in " << all;
}

TEST(Rewards, NameTheRowsThatTheyCannotBeComputedFor) {
  const Rewards rewards({{"exact", nullptr}, {"choice", nullptr}});
  const std::vector<EvalRow> rows{row({{"expected", "1"}})};
  const auto problems = rewards.problems_with(rows);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0], "rows.jsonl:7: rewards: check 'choice' needs 'choices', a list of at least two texts");
}

TEST(Rewards, AProgramThatFailsIsAnErrorThatNamesTheRow) {
  EXPECT_NE(failed(Json{"false"}).find("rows.jsonl:7: reward 'command': judge 'false'"), std::string::npos)
      << failed(Json{"false"});
  const Json hangs = {"sleep", "1000"}, rubbish = {"sh", "-c", "read x; echo nonsense; sleep 9"},
             infinite = {"sh", "-c", "read x; echo '{\"score\": NaN}'; sleep 9"},
             none = {"sh", "-c", "read x; echo '{\"points\": 3}'; sleep 9"};
  EXPECT_NE(failed(hangs, {{"timeout", .1}}).find("did not answer within 0.1 s"), std::string::npos);
  EXPECT_NE(failed(rubbish).find("wrote a line that is not JSON"), std::string::npos);
  EXPECT_NE(failed(infinite).find("rows.jsonl:7: reward 'command'"), std::string::npos);
  EXPECT_NE(failed(none).find("without 'pass' or 'score'"), std::string::npos);
}

}  // namespace
}  // namespace dml
