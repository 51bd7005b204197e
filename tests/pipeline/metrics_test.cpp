#include "pipeline/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

class MetricsFile : public testing::Test {
 protected:
  void SetUp() override { path_ = folder_ / "metrics.jsonl"; }

  static StepMetrics at(std::int64_t step) {
    return {step, 0.1 * step, 2.0 / 3 + 1.0 / step, 1e-17, 2e-4, 512, 100, 812.5, 0.63, 1u << 30};
  }

  testing_tools::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(MetricsFile, WritesOneObjectALineThatReadsBackExactly) {
  {
    MetricsLog log(path_);
    for (int s = 1; s <= 3; ++s) log.step(at(s));
    log.eval({3, 0.3, std::log(2.0)});
    log.event("save", 3, {{"path", "checkpoint-3"}});
    log.sync();
  }
  MetricsLog again(path_, 3);
  EXPECT_EQ(again.steps(), (std::vector<StepMetrics>{at(1), at(2), at(3)}));
  EXPECT_EQ(again.evals(), (std::vector<EvalMetrics>{{3, 0.3, std::log(2.0)}}));
  const std::string text = read_file(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_THAT(
      text, testing::StartsWith(R"({"step":1,"epoch":0.1,"loss":1.6666666666666665,"grad_norm":1e-17,"lr":0.0002,)"
                                R"("tokens":512,"learned_tokens":100,"tok_s":812.5,"step_s":0.63,"mem":1073741824})"));
  EXPECT_THAT(text, testing::HasSubstr(R"({"event":"eval","step":3,"epoch":0.3,"loss":0.6931471805599453,"ppl":2})"));
  EXPECT_THAT(text, testing::EndsWith("{\"event\":\"save\",\"step\":3,\"path\":\"checkpoint-3\"}\n"));
}

TEST_F(MetricsFile, CutsOffWhatLiesBehindTheStepARunGoesOnFrom) {
  {
    MetricsLog log(path_);
    for (int s = 1; s <= 4; ++s) {
      log.step(at(s));
      if (s % 2 == 0) log.eval({s, 0.1 * s, 1.0});
    }
  }
  const std::string whole = read_file(path_);
  {
    MetricsLog log(path_, 2);
    EXPECT_EQ(log.steps().size(), 2u);
    EXPECT_EQ(log.evals().size(), 1u);
    for (int s = 3; s <= 4; ++s) log.step(at(s));
    log.eval({4, 0.4, 1.0});
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

TEST_F(MetricsFile, NamesTheFileThatCannotBeWritten) {
  EXPECT_THROW(MetricsLog(folder_ / "no/metrics.jsonl"), IoError);
}

}  // namespace
}  // namespace dml
