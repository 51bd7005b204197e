// The steps after which a run evaluates and saves.
#include "assembly/calendar.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

using Steps = std::vector<std::int64_t>;

// `examples` of one token each, `per_step` of them a step.
Schedule schedule(int examples, int per_step, double epochs) {
  ScheduleOptions o;
  o.micro_batches_per_step = per_step;
  o.num_epochs = epochs;
  return Schedule(std::vector<std::int32_t>(static_cast<std::size_t>(examples), 1), o);
}

Steps days(const Schedule& s, auto&& due) {
  Steps out;
  for (std::int64_t step = 0; step < s.steps(); ++step)
    if (due(step)) out.push_back(step + 1);  // as people count
  return out;
}
Steps evaluations(const TrainSection& train, const Schedule& s) {
  Calendar calendar(train, s);
  Steps out = days(s, [&](std::int64_t step) { return calendar.evaluates(step); });
  EXPECT_EQ(static_cast<std::int64_t>(out.size()), calendar.evaluations());
  return out;
}
Steps saves(const TrainSection& train, const Schedule& s) {
  Calendar calendar(train, s);
  Steps out = days(s, [&](std::int64_t step) { return calendar.saves(step); });
  // The run also saves after its last step, unless it saves nothing or only its best.
  const bool last = train.save_strategy != IntervalStrategy::never && train.save_strategy != IntervalStrategy::best &&
                    (out.empty() || out.back() != s.steps());
  EXPECT_EQ(static_cast<std::int64_t>(out.size()) + last, calendar.checkpoints());
  return out;
}

TEST(Calendar, EveryNStepsAndAtTheEnd) {
  TrainSection train;
  train.eval_strategy = IntervalStrategy::steps;
  train.eval_steps = 4;
  EXPECT_EQ(evaluations(train, schedule(11, 1, 1)), (Steps{4, 8, 11}));
  EXPECT_EQ(evaluations(train, schedule(8, 1, 1)), (Steps{4, 8}));
  train.eval_steps = 1;
  EXPECT_EQ(evaluations(train, schedule(3, 1, 1)), (Steps{1, 2, 3}));
  train.eval_steps = 100;
  EXPECT_EQ(evaluations(train, schedule(3, 1, 1)), (Steps{3}));
}

TEST(Calendar, StepsContinueAcrossEpochs) {
  TrainSection train;
  train.save_steps = 4;
  EXPECT_EQ(saves(train, schedule(5, 1, 3)), (Steps{4, 8, 12}));
}

TEST(Calendar, BelowOneIsAFractionOfTheWholeRun) {
  TrainSection train;
  train.eval_steps = 0.25;
  EXPECT_EQ(evaluations(train, schedule(20, 1, 1)), (Steps{5, 10, 15, 20}));
  train.eval_steps = 0.3;  // of 10 steps, over two epochs
  EXPECT_EQ(evaluations(train, schedule(5, 1, 2)), (Steps{3, 6, 9, 10}));
  train.eval_steps = 0.001;
  EXPECT_EQ(evaluations(train, schedule(3, 1, 1)), (Steps{1, 2, 3}));
  train.save_steps = 0.07;  // exactly 7 of 100: no step more because 0.07 · 100 is a hair above 7
  EXPECT_EQ(saves(train, schedule(100, 1, 1)).front(), 7);
}

TEST(Calendar, KnowsTheStepsBetweenEvents) {
  TrainSection train;
  train.eval_steps = 0.25;
  train.save_steps = 4;
  const Schedule s = schedule(18, 1, 1);
  EXPECT_EQ(Calendar(train, s).eval_steps(), 5);
  EXPECT_EQ(Calendar(train, s).save_steps(), 4);
  train.save_strategy = IntervalStrategy::best;
  EXPECT_EQ(Calendar(train, s).save_steps(), 5) << "as it evaluates";
  EXPECT_EQ(Calendar({}, s).eval_steps(), 0);
}

TEST(Calendar, OnceAnEpochByDefault) {
  TrainSection train;
  EXPECT_EQ(evaluations(train, schedule(10, 3, 2)), (Steps{4, 8}));  // 10 examples are 4 steps, the last one smaller
  EXPECT_EQ(saves(train, schedule(10, 3, 2)), (Steps{4, 8}));
  train.eval_strategy = train.save_strategy = IntervalStrategy::epoch;
  train.eval_steps = 1;  // the strategy says epoch
  EXPECT_EQ(evaluations(train, schedule(10, 3, 2)), (Steps{4, 8}));
}

TEST(Calendar, SeveralTimesAnEpochByExactFractions) {
  TrainSection train;
  train.evals_per_epoch = train.saves_per_epoch = 2;
  EXPECT_EQ(saves(train, schedule(8, 1, 2)), (Steps{4, 8, 12, 16}));
  EXPECT_EQ(saves(train, schedule(7, 1, 2)), (Steps{4, 7, 11, 14}));  // after the step that passes the half
  // 10 examples, 3 a step: after steps of 3, 6, 9 and 10 examples 0.3, 0.6, 0.9 and all of the epoch are done.
  EXPECT_EQ(saves(train, schedule(10, 3, 2)), (Steps{2, 4, 6, 8}));
  train.saves_per_epoch = 3;
  EXPECT_EQ(saves(train, schedule(9, 1, 1)), (Steps{3, 6, 9}));
}

TEST(Calendar, NotMoreOftenThanThereAreSteps) {
  TrainSection train;
  train.saves_per_epoch = 50;
  EXPECT_EQ(saves(train, schedule(3, 1, 2)), (Steps{1, 2, 3, 4, 5, 6}));
}

TEST(Calendar, LessThanOnceAnEpochIsEverySeveralEpochs) {
  TrainSection train;
  train.saves_per_epoch = 0.5;
  EXPECT_EQ(saves(train, schedule(3, 1, 4)), (Steps{6, 12}));
}

TEST(Calendar, APartialEpochHasItsShareOfEvents) {
  TrainSection train;
  train.evals_per_epoch = 4;
  EXPECT_EQ(evaluations(train, schedule(8, 1, 1.5)), (Steps{2, 4, 6, 8, 10, 12}));
}

TEST(Calendar, NeverEvaluatesAndSavesNothing) {
  TrainSection train;
  train.eval_strategy = train.save_strategy = IntervalStrategy::never;
  train.eval_steps = train.save_steps = 1;
  EXPECT_EQ(evaluations(train, schedule(5, 1, 2)), (Steps{}));
  EXPECT_EQ(saves(train, schedule(5, 1, 2)), (Steps{}));
}

TEST(Calendar, SavesAfterTheFirstStepOnRequest) {
  TrainSection train;
  train.save_first_step = true;
  train.save_steps = 3;
  EXPECT_EQ(saves(train, schedule(6, 1, 1)), (Steps{1, 3, 6}));
}

TEST(Calendar, KeepingTheBestSavesWhenItEvaluates) {
  TrainSection train;
  train.save_strategy = IntervalStrategy::best;
  train.eval_steps = 2;
  train.save_steps = 3;
  EXPECT_EQ(saves(train, schedule(6, 1, 1)), (Steps{2, 4, 6}));
}

}  // namespace
}  // namespace dml
