// Plug-ins from their files to dml's tables: what each kind of row becomes, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "dist/strategy.h"
#include "evaluate/checks.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plugin/loader.h"
#include "plugin/tables.h"
#include "prompt/strategy.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kMine = DML_TEST_PLUGIN;

std::string broken(int number) { return fmt::format("{}/libdml_test_broken{}.so", DML_TEST_PLUGINS, number); }

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

class Plugin : public testing::Test {
 protected:
  Plugin() { load_plugin(kMine); }
};

TEST_F(Plugin, IsLoadedOnceAndSaysWhatItAdds) {
  const std::size_t before = optimizers().rows().size();
  EXPECT_EQ(load_plugin(kMine),
            "mine 2.1: optimizer my_sgd, schedule halves, prompt format shout, objective by_document, check longer, "
            "evaluator "
            "norm, observer watch, strategy everybody");
  EXPECT_EQ(optimizers().rows().size(), before);
}

TEST(PluginFiles, ThatAreInvalidOrOfAnotherAbiAreRejected) {
  EXPECT_THAT(error_of([] { load_plugin("/nowhere/libmine.so"); }),
              AllOf(HasSubstr("/nowhere/libmine.so"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([] { load_plugin(DML_SOURCE_DIR "/README.md"); }), HasSubstr("cannot be loaded"));
  EXPECT_THAT(error_of([] { load_plugin(broken(0)); }), HasSubstr("not a dml plug-in"));
  EXPECT_THAT(error_of([] { load_plugin(broken(1)); }),
              HasSubstr("was built for version 2 of the plug-in interface, this dml has version 1"));
  EXPECT_THAT(error_of([] { load_plugin(broken(2)); }), HasSubstr("was built with C++ ABI 1, this dml with "));
}

TEST(PluginFiles, ThatAreCutAreRejected) {
  const testing_tools::TemporaryFolder folder;
  const std::string whole = read_file(kMine), path = folder / "libcut.so";
  for (const std::size_t size : {std::size_t{100}, std::size_t{3000}, whole.size() / 2, whole.size() - 1}) {
    write_file(path, whole.substr(0, size));
    EXPECT_THAT(error_of([&] { load_plugin(path); }), HasSubstr("libcut.so: the file ends before its headers say"));
  }
}

TEST_F(Plugin, ThatFailsToLoadAddsNothing) {
  EXPECT_THAT(error_of([] { load_plugin(broken(3)); }),
              testing::EndsWith("libdml_test_broken3.so: no license for this"));
  EXPECT_EQ(schedules().find("thrown"), nullptr);
  EXPECT_THAT(error_of([] { load_plugin(broken(4)); }), HasSubstr("it adds the schedule 'once' twice"));
  EXPECT_EQ(schedules().find("once"), nullptr);
  EXPECT_THAT(error_of([] { load_plugin(broken(5)); }), HasSubstr("the schedule 'cosine' exists already in dml"));
  EXPECT_THAT(error_of([] { load_plugin(broken(6)); }), HasSubstr("the schedule 'halves' exists already: mine 2.1"));
}

TEST_F(Plugin, WhoseOptimizerNamesNoSettingAddsNothing) {
  EXPECT_THAT(error_of([] { load_plugin(broken(7)); }),
              testing::EndsWith(
                  "libdml_test_broken7.so: its optimizer 'drift': argument 'rate': there is no setting 'drift_rate'"));
  EXPECT_EQ(schedules().find("before"), nullptr);
}

TEST_F(Plugin, OptimizersUpdateSlicesWithArgumentsOfTheRecipe) {
  OptimizerSettings settings;
  settings.args = {{"momentum", 0.25}};
  const auto rule = optimizers().at("my_sgd").make(settings);
  Parameter p{.name = "w", .shape = {3}, .learning_rate_scale = 2};
  ASSERT_EQ(rule->state().floats(p, 3), 3);
  std::vector<float> value{1, 2, 3}, grad{4, 8, -4}, state(3);
  const std::vector<OptimizerSlice> slices{{value, grad, state, &p}};
  rule->step(slices, {.learning_rate = 0.5, .number = 0, .gradient_scale = 0.25});
  rule->step(slices, {.learning_rate = 0.5, .number = 1, .gradient_scale = 0.25});
  // m1 = g/4, m2 = m1/4 + g/4; the rate is 0.5 · 2.
  EXPECT_EQ(value, (std::vector<float>{1 - 1 - 1.25f, 2 - 2 - 2.5f, 3 + 1 + 1.25f}));
  EXPECT_EQ(optimizers().at("my_sgd").make.spellings.at(0).name, "mysgd");
}

TEST_F(Plugin, StateOfOptimizersIsLimited) {
  OptimizerSettings settings;
  const Parameter p{.name = "w", .shape = {3}};
  const auto floats = [&] { return optimizers().at("my_sgd").make(settings)->state().floats(p, 3); };
  settings.args = {{"per_element", 64}, {"per_parameter", 2}};
  EXPECT_EQ(floats(), 64 * 3 + 2);
  settings.args = {{"per_element", 65}};
  EXPECT_THAT(error_of(floats),
              HasSubstr("optimizer 'my_sgd': state() gives per_element = 65; it must be from 0 to 64"));
  settings.args = {{"per_parameter", 2e9}};
  EXPECT_THAT(error_of(floats), HasSubstr("state() gives per_parameter = 2000000000; it must be from 0 to 1073741824"));
}

TEST_F(Plugin, ArgumentsAreCheckedAndErrorsNameTheRow) {
  OptimizerSettings settings;
  settings.args = {{"momentun", 0.25}};
  EXPECT_THAT(error_of([&] { optimizers().at("my_sgd").make(settings); }),
              AllOf(HasSubstr("'momentun'"), HasSubstr("momentum")));
  settings.args = {{"momentum", 1.5}};
  EXPECT_THAT(error_of([&] { optimizers().at("my_sgd").make(settings); }), HasSubstr("momentum must be in [0, 1)"));
  settings.args = {{"momentum", 0.5}};
  EXPECT_THAT(error_of([&] { optimizers().at("my_sgd").make(settings); }),
              AllOf(HasSubstr("plug-in mine 2.1 ("), HasSubstr("optimizer 'my_sgd': half a momentum")));
  EXPECT_THAT(error_of([] {
                check_plugin_names({{"nrom", Json::object()}});
              }),
              AllOf(HasSubstr("'nrom'"), HasSubstr("norm")));
}

TEST_F(Plugin, SchedulesAreFactorsOfThePeakBehindTheWarmup) {
  ScheduleSettings s;
  s.name = "halves", s.peak = 8, s.steps = 10, s.warmup_steps = 2;
  s.kwargs = {{"times", 2}};
  const LearningRate rate(s);
  EXPECT_EQ(rate.at(0), 4);
  EXPECT_EQ(rate.at(2), 8);
  EXPECT_EQ(rate.at(6), 4);
  s.kwargs = {{"times", 2}, {"power", "wind"}};  // a number of polynomial
  EXPECT_EQ(LearningRate(s).at(6), 4);
  s.kwargs = {{"time", 2}};
  EXPECT_THAT(error_of([&] { LearningRate{s}; }), HasSubstr("'time' is not an argument of halves"));
}

TEST_F(Plugin, PromptFormatsGivePiecesAndTheirErrorsAreTheRows) {
  const auto format = prompt_strategies().at("shout").make({});
  const std::vector<Rendered> rows = format->render({{"say", "you"}});
  ASSERT_EQ(rows.size(), 1u);
  const Segment& s = rows[0].segments.at(0);
  EXPECT_EQ(s.text, "HEY you");
  ASSERT_EQ(s.spans.size(), 2u);
  EXPECT_FALSE(s.spans[0].trained);
  EXPECT_TRUE(s.spans[1].trained);
  EXPECT_TRUE(s.add_special && s.end_of_text && s.end_trained);
  EXPECT_EQ(format->prompt({}).segments.at(0).text, "HEY ");
  EXPECT_FALSE(format->prompt({}).segments.at(0).end_of_text);
  EXPECT_THAT(error_of([&] { format->render({{"said", "you"}}); }), HasSubstr("say"));
  EXPECT_EQ(error_of([&] { format->render({{"hush", 1}}); }), "hush now") << "one line; the reader names the row";
  EXPECT_THAT(error_of([&] {
                format->prompt({{"hush", 1}});
              }),
              AllOf(testing::StartsWith("plug-in mine 2.1 ("), testing::EndsWith("prompt format 'shout': hush now")));
}

TEST_F(Plugin, ChecksThatThrowSkipTheAnswerAndContinueTheRun) {
  const auto check = checks().at("longer").make({"longer", nullptr, {{"than", 4}}});
  EXPECT_EQ(check->name(), "longer");
  EXPECT_EQ(check->problem_with({{"text", "x"}}), "there is no prompt");
  EXPECT_EQ(check->problem_with({{"torn", 1}}), "torn apart") << "one line";
  EXPECT_TRUE(check->check({"p", "r", "12345", {}}, {}).pass);
  const Verdict no = check->check({"p", "r", "1234", {}}, {});
  EXPECT_FALSE(no.pass);
  EXPECT_EQ(no.score, 4);
  EXPECT_FALSE(check->check({"p", "r", "throw", {}}, {}).counts);
  EXPECT_THAT(check->problems(), testing::ElementsAre(AllOf(HasSubstr("check 'longer'"), HasSubstr("it broke"))));
}

TEST_F(Plugin, ChecksWhoseScoreIsNotFiniteSkipTheAnswer) {
  const auto check = checks().at("longer").make({"longer", nullptr, {{"than", 4}}});
  EXPECT_FALSE(check->check({"p", "r", "nan", {}}, {}).counts);
  EXPECT_THAT(check->problems(), testing::ElementsAre(AllOf(HasSubstr("check 'longer'"), HasSubstr("not a finite"))));
}

TEST_F(Plugin, ArgumentsOfAnyNameReachTheirRow) {
  // Optimizers call it eps.
  const auto check = checks().at("longer").make({"longer", nullptr, {{"than", 4}, {"epsilon", 1}}});
  EXPECT_TRUE(check->check({"p", "r", "1234", {}}, {}).pass);
  EXPECT_FALSE(check->check({"p", "r", "123", {}}, {}).pass);
  EXPECT_EQ(error_of([] {
              checks().at("longer").make({"longer", nullptr, {{"betas", {1, 2}}}});
            }),
            "check 'longer': unknown argument 'betas'; choose from than, epsilon");
}

TEST_F(Plugin, ObserversKeepTheirStateInCheckpoints) {
  const auto watch = plugin_observers().at("watch").make(Json::object());
  watch->on_step({.step = 1});
  watch->on_step({.step = 2});
  TrainState state;
  watch->write_state(state);
  EXPECT_EQ(state.extra["plugins"]["watch"], 2);
  const auto resumed = plugin_observers().at("watch").make({{"fail_at", 4}});
  resumed->read_state(state, "checkpoint");
  resumed->on_step({.step = 3});
  resumed->write_state(state);
  EXPECT_EQ(state.extra["plugins"]["watch"], 3);
  EXPECT_THAT(error_of([&] { resumed->on_step({.step = 4}); }), HasSubstr("observer 'watch': seen enough"));
}

}  // namespace
}  // namespace dml
