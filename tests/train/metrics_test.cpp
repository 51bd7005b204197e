#include "train/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "temporary_folder.h"

namespace dml {
namespace {

class MetricsFile : public testing::Test {
 protected:
  void SetUp() override { path_ = folder_ / "metrics.jsonl"; }

  static StepMetrics at(std::int64_t step) {
    return {step, 0.1 * step, 2.0 / 3 + 1.0 / step, 1e-17, 2e-4, 512, 100, 812.5, 0.63, 1u << 30, {}, 1795743989.125};
  }

  static EvalMetrics eval_at(std::int64_t step) { return {step, 0.1 * step, {{kEvalLoss, 1.0}}}; }

  testing_tools::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(MetricsFile, WritesOneObjectALineThatReadsBackExactly) {
  {
    MetricsLog log(path_);
    for (int s = 1; s <= 3; ++s) log.step(at(s));
    log.eval({3, 0.3, {{kEvalLoss, std::log(2.0)}, {kEvalPerplexity, 2}}});
    log.sample({3, "a \"b\"", "c", "d"});
    log.sync();
  }
  MetricsLog again(path_, 3);
  EXPECT_EQ(again.steps(), (std::vector<StepMetrics>{at(1), at(2), at(3)}));
  EXPECT_EQ(again.evals(), (std::vector<EvalMetrics>{{3, 0.3, {{kEvalLoss, std::log(2.0)}, {kEvalPerplexity, 2}}}}));
  EXPECT_EQ(again.samples(), (std::vector<SampleMetrics>{{3, "a \"b\"", "c", "d"}}));
  const std::string text = read_file(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_THAT(
      text,
      testing::StartsWith(
          R"({"step":1,"epoch":0.1,"loss":1.6666666666666665,"grad_norm":1e-17,"lr":0.0002,)"
          R"("tokens":512,"trained_tokens":100,"tok_s":812.5,"step_s":0.63,"mem":1073741824,"time":1795743989.125})"));
  EXPECT_THAT(text, testing::HasSubstr(R"({"event":"eval","step":3,"epoch":0.3,"loss":0.6931471805599453,"ppl":2})"));
  EXPECT_THAT(text, testing::EndsWith(R"({"event":"sample","step":3,"prompt":"a \"b\"","expected":"c","text":"d"})"
                                      "\n"));
}

TEST_F(MetricsFile, SamplesContainTheAnswersOfTheBase) {
  {
    MetricsLog log(path_);
    log.sample({0, "a", "x", "before"});
    log.step(at(1));
    log.sample({1, "a", "x", "after"});
    log.sample({1, "b", "y", "new"});
  }
  MetricsLog again(path_, 1);
  EXPECT_EQ(again.samples(), (std::vector<SampleMetrics>{
                                 {0, "a", "x", "before"}, {1, "a", "x", "after", "before"}, {1, "b", "y", "new"}}));
  again.sample({2, "a", "x", "later"});  // of a run that is resumed
  EXPECT_EQ(again.samples().back().base, "before");
}

TEST_F(MetricsFile, KeepsNamedValuesAfterItsOwnFields) {
  StepMetrics step = at(1);
  step.values = {{"rewards/margins", 0.25}, {"a \"name\"", -1.5}};
  const EvalMetrics all{1, 0.1, {{kEvalLoss, 1.0}, {"eval_words_loss", 1.25}}}, other{1, 0.1, {{"accuracy", 0.75}}};
  {
    MetricsLog log(path_);
    log.step(step);
    log.eval(all);
    log.eval(other);
  }
  EXPECT_THAT(read_file(path_),
              testing::HasSubstr(R"("time":1795743989.125,"rewards/margins":0.25,"a \"name\"":-1.5})"));
  EXPECT_THAT(read_file(path_), testing::HasSubstr(R"("loss":1,"eval_words_loss":1.25})"));
  EXPECT_THAT(read_file(path_), testing::HasSubstr(R"({"event":"eval","step":1,"epoch":0.1,"accuracy":0.75})"));
  MetricsLog again(path_, 1);
  ASSERT_EQ(again.steps().size(), 1u);
  EXPECT_THAT(again.steps()[0].values, testing::UnorderedElementsAreArray(step.values));
  EXPECT_EQ(again.evals(), (std::vector<EvalMetrics>{all, other}));
  EXPECT_TRUE(std::isnan(again.evals()[1].loss()));
}

TEST_F(MetricsFile, RemovesLinesAfterTheResumedStep) {
  {
    MetricsLog log(path_);
    for (int s = 1; s <= 4; ++s) {
      log.step(at(s));
      if (s % 2 == 0) log.eval(eval_at(s));
    }
  }
  const std::string whole = read_file(path_);
  {
    MetricsLog log(path_, 2);
    EXPECT_EQ(log.steps().size(), 2u);
    EXPECT_EQ(log.evals().size(), 1u);
    for (int s = 3; s <= 4; ++s) log.step(at(s));
    log.eval(eval_at(4));
  }
  EXPECT_EQ(read_file(path_), whole);
}

TEST_F(MetricsFile, AFreshRunStartsAnEmptyFile) {
  { MetricsLog(path_).step(at(1)); }
  { MetricsLog log(path_); }
  EXPECT_EQ(read_file(path_), "");
}

TEST_F(MetricsFile, DropsALineTornByACrash) {
  { MetricsLog(path_).step(at(1)); }
  const std::string good = read_file(path_);
  for (const char* torn : {"{\"step\":2,\"lo", "{\"step\":2,\"lo\n{\"step\":3}\n", "[]\n", "{\"step\":\"x\"}\n"}) {
    write_file(path_, good + torn);
    MetricsLog log(path_, 100);
    EXPECT_EQ(log.steps().size(), 1u) << torn;
    EXPECT_EQ(read_file(path_), good) << torn;
  }
}

TEST_F(MetricsFile, WritesADivergedLossAsNull) {
  StepMetrics m = at(1);
  m.loss = NAN;
  m.grad_norm = INFINITY;
  { MetricsLog(path_).step(m); }
  EXPECT_THAT(read_file(path_), testing::HasSubstr(R"("loss":null,"grad_norm":null)"));
  MetricsLog log(path_, 1);
  ASSERT_EQ(log.steps().size(), 1u);
  EXPECT_TRUE(std::isnan(log.steps()[0].loss));
}

// docs/metrics.md has a table for each kind of line: "### Training step", then a row `| `field` | …` for each field.
std::map<std::string, std::vector<std::string>> documented_fields() {
  std::map<std::string, std::vector<std::string>> out;
  std::istringstream page(read_file(DML_SOURCE_DIR "/docs/metrics.md"));
  std::string section;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) section = line.substr(line.find_first_not_of("# "));
    if (line.starts_with("| `")) out[section].push_back(line.substr(3, line.find('`', 3) - 3));
  }
  return out;
}

TEST_F(MetricsFile, HasTheFieldsThatItsPageNames) {
  {
    MetricsLog log(path_);
    log.step(at(1));
    log.eval({1, 0.1, {{kEvalLoss, 1}, {kEvalPerplexity, std::exp(1.0)}}});
    log.sample({1, "a", "b", "c"});
  }
  auto documented = documented_fields();
  std::istringstream lines(read_file(path_));
  std::size_t kinds = 0;
  for (std::string line; std::getline(lines, line); ++kinds) {
    const Json object = parse_json(line, "metrics.jsonl");
    const std::string event = object.value("event", "");
    const std::string section = event.empty() ? "Training step" : event == "eval" ? "Evaluation" : "Sample";
    std::vector<std::string> written;
    for (auto& [field, value] : object.items()) written.push_back(field);
    EXPECT_THAT(documented[section], testing::ElementsAreArray(written)) << section;
  }
  EXPECT_EQ(kinds, 3u);
}

TEST_F(MetricsFile, NamesTheFileThatCannotBeWritten) {
  EXPECT_THROW(MetricsLog(folder_ / "no/metrics.jsonl"), IoError);
}

}  // namespace
}  // namespace dml
