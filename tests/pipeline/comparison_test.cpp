// Runs read from their folders and put side by side.
#include "pipeline/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"
#include "train/metrics_log.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing::Not;

class ComparedRuns : public testing::Test {
 protected:
  std::string run(const std::string& name, double rate, double loss, const std::string& answer) {
    make_directories(folder_ / name);
    {
      MetricsLog log(folder_ / name + "/metrics.jsonl");
      log.sample({0, "a & b?", "yes", "what"});
      for (std::int64_t s = 1; s <= 20; ++s) {
        StepMetrics m{s, static_cast<double>(s) / 20, loss + 1.0 / static_cast<double>(s)};
        m.lr = rate;
        log.step(m);
      }
      log.eval({20, 1, {{kEvalLoss, loss}, {"eval_words_acc", 0.25}}});
      log.sample({20, "a & b?", "yes", answer});
    }
    write_file(
        folder_ / name + "/recipe.resolved.yml",
        fmt::format("base_model: m  # r.yml:1:1\nlearning_rate: {} # {}.yml:2:2\nval_set_size: 8\noutput_dir: {}\n",
                    rate, name, name));
    return folder_ / name;
  }
  testing_tools::TemporaryFolder folder_;
};

TEST_F(ComparedRuns, ShowTheirResultsSettingsCurvesAndAnswers) {
  const auto runs = read_runs({run("first", 1e-3, 2, "no"), run("second", 2e-3, 1.5, "yes!")});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].name, "second");
  std::vector<std::string> names;
  for (const auto& [name, chart] : comparison_charts(runs)) {
    names.push_back(name);
    EXPECT_EQ(chart.series.size(), 2u) << name;
  }
  EXPECT_THAT(names, testing::ElementsAre("loss", "eval_loss", "eval_words_acc", "learning-rate", "gradient-norm",
                                          "tokens-per-second"));
  const std::string page = comparison_html(runs);
  for (const char* part : {"<td>learning_rate</td>", ">0.001<", ">0.002<", ">1.5000<", "a &amp; b?", ">what<", ">yes!<",
                           "<td>training loss</td><td class=\"n\">2.0500</td><td class=\"n\">1.5500</td>"})
    EXPECT_THAT(page, HasSubstr(part)) << part;
  for (const char* part : {"val_set_size", "output_dir"}) EXPECT_THAT(page, Not(HasSubstr(part))) << part;
}

TEST_F(ComparedRuns, AreChartsAsFiles) {
  const auto paths =
      write_charts(folder_ / "charts", comparison_charts(read_runs({run("first", 1e-3, 2, "no")})), false);
  EXPECT_THAT(paths, testing::Contains(folder_ / "charts/eval_loss.svg"));
  for (const std::string& path : paths) EXPECT_THAT(read_file(path), testing::EndsWith("</svg>\n")) << path;
}

TEST_F(ComparedRuns, AreRefusedTogetherWhereThereAreNone) {
  EXPECT_THAT(
      [&] {
        read_runs({folder_ / "x", folder_ / "y"});
      },
      testing::ThrowsMessage<UserError>(
          testing::AllOf(HasSubstr("/x: not the output directory of a run"), HasSubstr("/y: not the"))));
}

}  // namespace
}  // namespace dml
