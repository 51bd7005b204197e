// Recipes with plug-ins: their rows take part in whole runs, on one rank and on two, and errors are one line.
#include <gmock/gmock.h>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;

class PlugIns : public Workshop {
 protected:
  void SetUp() override { alpaca("rows.jsonl", 20); }
  static Keys loaded() { return Keys{{"plugins", fmt::format("[{}]", DML_TEST_PLUGIN)}}; }
  double last_loss(const std::string& folder) const {
    double loss = 0;
    for (const Json& line : json_lines(at(folder) + "/metrics.jsonl"))
      if (line.contains("loss")) loss = line["loss"];
    return loss;
  }
};

TEST_F(PlugIns, OptimizerScheduleObjectiveEvaluatorAndObserverTrainAndResume) {
  const Keys keys = tiny_model() + loaded() + Keys{{"optimizer", "mysgd"},       {"optim_args", "{momentum: 0.75}"},
                                                   {"learning_rate", "1e-2"},    {"lr_scheduler", "halves"},
                                                   {"objective", "by_document"}, {"max_steps", "6"}};
  const Ended whole = train(1, recipe("whole.yml", keys + Keys{{"output_dir", at("whole")}}));
  ASSERT_EQ(whole.exit, 0) << whole.err;
  EXPECT_THAT(whole.err, HasSubstr("plug-in loaded, its code runs with your rights: mine 2.1: optimizer my_sgd"));
  std::int64_t steps = 0;
  bool norm = false;
  for (const Json& line : json_lines(at("whole/metrics.jsonl"))) {
    if (line.contains("loss") && line.contains("perplexities")) steps = line["step"];
    norm |= line.contains("eval_weight_norm");
  }
  EXPECT_EQ(steps, 6);
  EXPECT_TRUE(norm);

  // The observer stops the first run; its stored state lets the second one finish.
  const std::string stopped =
      recipe("stopped.yml", keys + Keys{{"output_dir", at("stopped")}, {"plugin_args", "{watch: {stop_at: 3}}"}});
  EXPECT_EQ(train(1, stopped).exit, 75);
  const Ended resumed = train(1, stopped, {"--resume", "auto"});
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(results_in(at("stopped")), results_in(at("whole")));
}

TEST_F(PlugIns, AnObserverThatEndsTrainingIsNamed) {
  const Ended e = train(1, recipe("r.yml", tiny_model() + loaded() +
                                               Keys{{"max_steps", "6"}, {"plugin_args", "{watch: {finish_at: 3}}"}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("Finished early at step 3: plug-in mine 2.1"));
  EXPECT_THAT(e.err, HasSubstr("observer 'watch' asked for it"));
  EXPECT_THAT(e.err, testing::Not(HasSubstr("has not improved")));
}

TEST_F(PlugIns, AMetricThatIsNeverANumberHasNoBestModel) {
  const Keys keys = tiny_model() + loaded() +
                    Keys{{"max_steps", "4"},
                         {"eval_steps", "2"},
                         {"save_steps", "2"},
                         {"metric_for_best_model", "eval_weight_norm"},
                         {"load_best_model_at_end", "true"}};
  const std::string says = "no evaluation gave a number for eval_weight_norm; the last weights are kept";
  Ended e = train(1, recipe("nan.yml", keys + Keys{{"output_dir", at("nan")}, {"plugin_args", "{norm: {nan: true}}"}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr(says));
  e = train(1, recipe("norm.yml", keys + Keys{{"output_dir", at("norm")}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, testing::Not(HasSubstr(says)));
}

TEST_F(PlugIns, AStrategyThatSumsOverTheRanksIsDdp) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  const Keys keys =
      tiny_model() + Keys{{"optimizer", "sgd"}, {"learning_rate", "1e-2"}, {"max_steps", "4"}, {"eval_steps", ""}};
  Ended e = train(2, recipe("ddp.yml", keys + Keys{{"distribution", "ddp"}, {"output_dir", at("ddp")}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  e = train(2, recipe("own.yml", keys + loaded() + Keys{{"distribution", "everybody"}, {"output_dir", at("own")}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_NEAR(last_loss("own"), last_loss("ddp"), 1e-5 * last_loss("ddp"));
}

TEST_F(PlugIns, ErrorsAreOneLineBeforeTheRun) {
  const auto refused = [&](const Keys& keys, const Words& says, int ranks = 1) {
    expect_refused(train(ranks, recipe("r.yml", tiny_model() + keys)), 2, says);
  };
  refused({{"plugins", "[./libnone.so]"}}, {"r.yml:", "plug-in ./libnone.so: No such file or directory"});
  for (const char* taken : {"eval_loss", "step"})
    refused(loaded() + Keys{{"plugin_args", fmt::format("{{norm: {{metric: {}}}}}", taken)}},
            {fmt::format("'{}' is the name of another value of the evaluation", taken)});
  refused(loaded() + Keys{{"optimizer", "my_sdg"}}, {"r.yml:", "my_sdg", "my_sgd"});
  refused(loaded() + Keys{{"plugin_args", "{watch: {fail_on: 3}}"}},
          {"plugin_args.watch: unknown argument 'fail_on'", "fail_at"});
  const Ended no_table = train(1, recipe("r.yml", tiny_model() + loaded() + Keys{{"plugin_args", "{watch: 3}"}}));
  expect_refused(no_table, 2, {"plugin_args.watch: expected a table of arguments"});
  EXPECT_THAT(no_table.err, testing::Not(HasSubstr("unknown argument")));
  refused(loaded() + Keys{{"plugin_args", "{wacht: {}}"}}, {"plugin_args: no plug-in has added 'wacht'", "watch"});
  refused(loaded() + Keys{{"optimizer", "my_sgd"}, {"optim_args", "{momentum: 0.5}"}},
          {"plug-in mine 2.1", "optimizer 'my_sgd': half a momentum"});
  refused({{"objective", "by_document"}}, {"r.yml:", "objective"});
  const std::string everybody = recipe("s.yml", tiny_model() + loaded() + Keys{{"distribution", "everybody"}});
  expect_refused(dml({"validate", everybody, "--plugin_args", "{everybody: {fail_on_rank: x}}"}), 2,
                 {"command line: plugin_args.everybody: fail_on_rank must be a number"});
}

// Wherever plug-in code is called, on every rank or on one: one line that names the row, exit code 2, and no rank that
// waits.
class PlugInsThatThrow : public PlugIns, public testing::WithParamInterface<int> {};

TEST_P(PlugInsThatThrow, EndTheRunOnEveryRankWithOneLine) {
  const int ranks = GetParam();
  if (ranks > 1 && !has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  struct Case {
    Keys keys;
    std::string says;
  };
  std::vector<Case> cases{
      {{{"plugin_args", "{watch: {fail_at: 2}}"}, {"save_steps", "1"}}, "observer 'watch': seen enough"},
      {{{"optimizer", "my_sgd"}, {"optim_args", "{fail_at: 2}"}}, "optimizer 'my_sgd': no more steps"},
      {{{"lr_scheduler", "halves"}, {"lr_scheduler_kwargs", "{times: 13}"}},
       "schedule 'halves': an exception that is not a std::exception"},
      {{{"objective", "by_document"}, {"plugin_args", "{by_document: {fail_at: 3}}"}},
       "objective 'by_document': lost count"},
      {{{"eval_steps", "2"}, {"plugin_args", fmt::format("{{norm: {{fail_on_rank: {}}}}}", ranks)}},
       "evaluator 'norm': cannot measure"}};
  for (const char* missing : {"entry", "bytes"})
    cases.push_back(
        {{{"distribution", "everybody"}, {"plugin_args", fmt::format("{{everybody: {{leave_out: {}}}}}", missing)}},
         "strategy 'everybody': exchange() got "});
  if (ranks > 1)
    cases.push_back(
        {{{"distribution", "everybody"}, {"plugin_args", fmt::format("{{everybody: {{fail_on_rank: {}}}}}", ranks)}},
         "strategy 'everybody': left alone"});
  for (const Case& c : cases) {
    const Ended e = train(
        ranks, recipe("r.yml", tiny_model() + loaded() + Keys{{"max_steps", "4"}, {"output_dir", at("run")}} + c.keys));
    EXPECT_EQ(e.exit, 2) << c.says << "\n" << e.err;
    EXPECT_FALSE(e.timed_out) << c.says;
    const std::size_t line = e.err.find("error: ");
    ASSERT_NE(line, std::string::npos) << c.says << "\n" << e.err;
    EXPECT_EQ(e.err.find("error: ", line + 1), std::string::npos) << "more than one error:\n" << e.err;
    EXPECT_THAT(e.err.substr(line), testing::AllOf(HasSubstr("plug-in mine 2.1"), HasSubstr(c.says)));
    EXPECT_TRUE(processes_with(at("r.yml")).empty()) << c.says << ": a rank is left";
    EXPECT_EQ(file_exists(at("run/checkpoint-1/manifest.json")), &c == cases.data()) << c.says;
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, PlugInsThatThrow, testing::Values(1, 2, 4));

}  // namespace
}  // namespace dml::e2e
