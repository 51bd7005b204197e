// The training loop with a golden model: which callbacks run when, and whose actions count.
#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "dist/thread_ranks.h"
#include "model/golden.h"
#include "temporary_folder.h"
#include "train/best_model.h"
#include "train/limits.h"
#include "train/token_loss.h"

namespace dml {
namespace {

using testing::ElementsAre;

// Records its calls, and returns prepared actions.
class Diary : public Observer {
 public:
  explicit Diary(std::vector<std::string>& lines) : lines_(lines) {}
  std::function<Action(std::int64_t step)> answer = [](std::int64_t) { return Action{}; };

  Action on_start(const RunFacts& facts) override {
    return note("start {} of {}", facts.first_step, facts.steps), Action{};
  }
  void before_step(std::int64_t done) override { note("before step {}", done); }
  Action on_step(const StepMetrics& m) override { return note("step {}", m.step), answer(m.step); }
  Action on_eval(const EvalMetrics& m, const std::vector<SampleMetrics>&) override {
    return note("eval {}: {}", m.step, m.values.at(0).value), Action{};
  }
  void before_save() override { note("before save"); }
  void on_save(const SavedCheckpoint& saved) override { note("saved {}", saved.step); }
  void on_end(const RunEnd& end) override { note("end {} saved {}", end.step, end.saved_at); }

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    lines_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  std::vector<std::string>& lines_;
};

// Returns the numbers of a list, one per evaluation.
class Numbers : public Evaluator {
 public:
  explicit Numbers(std::vector<double> numbers) : numbers_(std::move(numbers)) {}
  std::vector<Metric> metrics() const override { return {{"score", true}}; }
  void evaluate(const EvaluationContext&, EvaluationResult& result) override {
    result.values.push_back({"score", numbers_.at(next_++)});
  }

 private:
  std::vector<double> numbers_;
  std::size_t next_ = 0;
};

// Forwards the hooks and, on request, makes the last layer's gradient infinite before the strategy receives it.
struct PoisonedHooks : UnitHooks {
  PoisonedHooks(UnitHooks& to, CausalLm& model, bool poison) : to_(to), model_(model), poison_(poison) {}
  void before_forward(int u) override { to_.before_forward(u); }
  void after_forward(int u) override { to_.after_forward(u); }
  void before_backward(int u) override { to_.before_backward(u); }
  void before_gradient(int u) override { to_.before_gradient(u); }
  void after_backward(int u) override {
    if (poison_ && u == 1) model_.parameters.units()[1].grad[0] = INFINITY;
    to_.after_backward(u);
  }
  UnitHooks& to_;
  CausalLm& model_;
  bool poison_;
};

// Token loss that is no number, or has no finite gradient, in some steps on one rank.
class Poisoned : public TokenLoss {
 public:
  std::set<std::uint64_t> losses, gradients;  // steps, from 0
  bool here = true;                           // on this rank

  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override {
    const std::uint64_t step = seed.micro_batch >> 24;
    PoisonedHooks poisoned(hooks, model, here && batch.size() > 0 && gradients.contains(step));
    LossSums sums = TokenLoss::train(model, batch, seed, poisoned);
    if (here && losses.contains(step)) sums.loss = NAN;
    return sums;
  }
};

// Damages what the run holds, before a step.
class Damage : public Observer {
 public:
  explicit Damage(std::function<void(std::int64_t done)> at) : at_(std::move(at)) {}
  void before_step(std::int64_t done) override { at_(done); }

 private:
  std::function<void(std::int64_t)> at_;
};

struct EmptyContents : CheckpointContents {
  Jobs write(const std::string&) override { return {}; }
  Jobs copy(const std::string&, Snapshot&) override { return {}; }
};

// A run over the documents of the golden batch, one a step.
struct SmallRun {
  GoldenBatch batch{golden_path("llama_tiny") + "/batch.json"};
  std::vector<std::int64_t> offsets{batch.starts.begin(), batch.starts.end()};
  std::vector<std::int32_t> chosen;
  testing_tools::TemporaryFolder folder;
  std::string output = folder.path();
  std::vector<std::string> lines;
  std::vector<std::unique_ptr<Observer>> observers;
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  std::int64_t steps = 4, every = 100, nonfinite_patience = 1;
  bool save_in_background = false;
  Poisoned objective;
  std::vector<float> values;      // in the end, also of a run that fails
  std::vector<std::string> rows;  // that were named, of rank 0
  /// Called before every step with what this rank owns.
  std::function<void(std::int64_t done, std::span<Shard> shards)> damage;

  SmallRun() {
    for (std::size_t d = 0; d + 1 < batch.starts.size(); ++d) chosen.push_back(static_cast<std::int32_t>(d));
    observers.push_back(std::make_unique<Diary>(lines));
  }
  Diary& diary() { return static_cast<Diary&>(*observers[0]); }

  /// Of the golden model.
  std::vector<float> start_values() const {
    const std::string directory = golden_path("llama_tiny") + "/model";
    auto files = std::make_shared<ModelFiles>(directory);
    auto model = build_model(read_model_spec(directory), golden_source(files), {.full = true}, directory);
    std::vector<float> out;
    for (const Unit& u : model->parameters.units()) out.insert(out.end(), u.value.floats(), u.value.floats() + u.size);
    return out;
  }

  RunEnd run(Comm& comm, TrainState state = {}, const std::string& from = "") {
    const Examples examples(batch.tokens, batch.tokens, offsets, chosen);
    const Schedule schedule(examples.lengths(), {.micro_batches_per_step = comm.size(), .max_steps = steps});
    Loader loader(examples, schedule);
    const std::string directory = golden_path("llama_tiny") + "/model";
    auto files = std::make_shared<ModelFiles>(directory);
    auto model = build_model(read_model_spec(directory), golden_source(files), {.full = true}, directory);
    model->set_length(batch.longest());
    model->reserve(objective.measure(*model, {schedule.longest(), schedule.longest(), 1}, true));
    auto optimizer = optimizers().at("sgd").make({});
    auto strategy = strategies().at(comm.size() > 1 ? "ddp" : "none").make(comm, {});
    strategy->adopt(model->parameters, optimizer->state());
    set_empty_pass(*model, objective, *strategy);
    const StepParts parts{*model, objective, *strategy, *optimizer, comm};
    const LearningRate rate({.name = "constant", .peak = 0.01, .steps = steps});
    EmptyContents contents;
    Saver saver(parts, contents, {output, 0, save_in_background});
    MappedWatch nothing({});
    BaseWatch base(
        comm, nothing, "", [] { return std::string(); }, false);
    TrainerSettings settings;
    settings.facts = {.first_step = state.step, .steps = steps, .output_dir = output, .resumed_from = from};
    settings.evaluates = [this](std::int64_t s) { return (s + 1) % every == 0; };
    settings.saves = [](std::int64_t) { return false; };
    settings.nonfinite_patience = nonfinite_patience;
    settings.rows_of_step = [this](std::int64_t step, std::span<const std::int64_t> micro_batches) {
      return rows.emplace_back(fmt::format("step {}: {}", step, fmt::join(micro_batches, " ")));
    };
    if (damage)
      observers.push_back(std::make_unique<Damage>([&](std::int64_t done) { damage(done, strategy->shards()); }));
    Trainer trainer({parts, schedule, loader, rate, evaluators, observers, saver, base, nullptr}, settings, state);
    const auto collect = [&] {
      for (const Unit& u : model->parameters.units())
        values.insert(values.end(), u.value.floats(), u.value.floats() + u.size);
    };
    try {
      const RunEnd end = trainer.run();
      collect();
      return end;
    } catch (...) {
      collect();
      throw;
    }
  }
};

TEST(Trainer, CallsObserversInTheOrderOfEvents) {
  SmallRun run;
  run.steps = 2;
  run.every = 2;
  run.evaluators.push_back(std::make_unique<Numbers>(std::vector<double>{0.5}));
  auto comm = make_self_comm();
  const RunEnd end = run.run(*comm);
  EXPECT_EQ(end.reason, RunEnd::Reason::complete);
  EXPECT_THAT(run.lines, ElementsAre("start 0 of 2", "before step 0", "step 1", "before step 1", "step 2",
                                     "eval 2: 0.5", "before save", "saved 2", "end 2 saved 2"));
}

TEST(Trainer, SavesAndStopsWhenAnyRankRequestsIt) {
  run_thread_ranks(3, [&](Comm& comm) {
    SmallRun run;
    run.diary().answer = [&](std::int64_t step) {
      return Action{.save = comm.rank() == 1 && step == 1, .stop = comm.rank() == 2 && step == 3};
    };
    const RunEnd end = run.run(comm);
    EXPECT_EQ(end.reason, RunEnd::Reason::stopped);
    EXPECT_EQ(end.step, 3);
    EXPECT_EQ(end.saved_at, 1);
  });
}

TEST(Trainer, FinishesEarlyAsIfThatStepWereTheLast) {
  SmallRun run;
  run.diary().answer = [](std::int64_t step) { return Action{.finish = step == 2}; };
  auto comm = make_self_comm();
  const RunEnd end = run.run(*comm);
  EXPECT_EQ(end.reason, RunEnd::Reason::finished_early);
  EXPECT_EQ(end.step, 2);
  EXPECT_EQ(end.saved_at, 2);
  EXPECT_TRUE(file_exists(run.folder / "checkpoint-2/manifest.json"));
}

TEST(Trainer, EvaluatesTheStepAtWhichItFinishesEarlyOnce) {
  for (const std::int64_t every : {2, 4}) {  // 2: that step is evaluated anyway
    SmallRun run;
    run.steps = 4;
    run.every = every;
    run.evaluators.push_back(std::make_unique<Numbers>(std::vector<double>{0.5}));
    run.diary().answer = [](std::int64_t step) { return Action{.finish = step == 2}; };
    auto comm = make_self_comm();
    EXPECT_EQ(run.run(*comm).step, 2);
    EXPECT_EQ(std::ranges::count(run.lines, "eval 2: 0.5"), 1) << every;
  }
}

// Observers that only write exist on one rank.
TEST(Trainer, AnObserverThatFailsOnOneRankEndsTheRunAfterItsCheckpoint) {
  const testing_tools::TemporaryFolder shared;
  std::vector<std::string> errors(3);
  run_thread_ranks(3, [&](Comm& comm) {
    SmallRun run;
    run.output = shared.path();
    run.save_in_background = true;
    run.diary().answer = [&](std::int64_t step) {
      if (step == 3 && comm.rank() == 0) throw UserError("spikes cannot be written");
      return Action{.save = step == 2};
    };
    try {
      run.run(comm);
    } catch (const Error& e) {
      errors[static_cast<std::size_t>(comm.rank())] = e.what();
    }
  });
  EXPECT_THAT(errors,
              ElementsAre("spikes cannot be written", "an observer of rank 0 failed", "an observer of rank 0 failed"));
  EXPECT_TRUE(file_exists(shared / "checkpoint-2/manifest.json"));
}

// The other ranks are in the middle of the step, so nothing can be done together with them.
TEST(Trainer, AStepThatFailsOnOneRankEndsTheRunWithItsError) {
  const testing_tools::TemporaryFolder shared;
  try {
    run_thread_ranks(2, [&](Comm& comm) {
      SmallRun run;
      run.output = shared.path();
      run.save_in_background = true;
      run.diary().answer = [](std::int64_t step) { return Action{.save = step == 2}; };
      run.observers.push_back(std::make_unique<Damage>([&](std::int64_t done) {
        if (done == 2 && comm.rank() == 0) throw UserError("lost count");
      }));
      run.run(comm);
    });
    ADD_FAILURE() << "the run did not end";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "lost count");
  }
}

TEST(Trainer, AStopAfterTheLastStepHasNoEffect) {
  SmallRun run;
  run.diary().answer = [&](std::int64_t step) { return Action{.stop = step == run.steps}; };
  auto comm = make_self_comm();
  EXPECT_EQ(run.run(*comm).reason, RunEnd::Reason::complete);
}

TEST(Trainer, SkipsAStepThatIsNotFiniteOnAllRanks) {
  for (int ranks : {1, 3}) {
    run_thread_ranks(ranks, [&](Comm& comm) {
      SmallRun untouched, run;
      untouched.steps = run.steps = 2;
      untouched.run(comm);
      run.nonfinite_patience = 2;
      run.objective.here = comm.rank() == ranks - 1;
      run.objective.losses = {0};
      run.objective.gradients = {1};
      // The second one in a row is too many.
      try {
        run.run(comm);
        ADD_FAILURE() << "the run did not end";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::diverged);
        EXPECT_THAT(e.what(), testing::HasSubstr("step 2: loss is "));
        EXPECT_THAT(e.what(),
                    testing::HasSubstr("for 2 steps in a row; the weights were left as they were after step 0"));
      }
      SmallRun skipping;
      skipping.steps = 2;
      skipping.nonfinite_patience = 3;
      skipping.objective.here = run.objective.here;
      skipping.objective.losses = {0};
      skipping.objective.gradients = {1};
      EXPECT_EQ(skipping.run(comm).step, 2);
      EXPECT_NE(skipping.values, untouched.values);
      EXPECT_EQ(skipping.values, skipping.start_values());
    });
  }
}

TEST(Trainer, NamesTheRowsOfASkippedStep) {
  run_thread_ranks(2, [&](Comm& comm) {
    SmallRun run;
    run.steps = 3;
    run.nonfinite_patience = 2;
    run.objective.here = comm.rank() == 1;
    run.objective.losses = {0};     // of micro-batch 1, which is rank 1's
    run.objective.gradients = {2};  // which micro-batch it was is lost in the sum
    EXPECT_EQ(run.run(comm).step, 3);
    if (comm.rank() == 0) {
      EXPECT_THAT(run.rows, ElementsAre("step 0: 1", "step 2: "));
    }
  });
}

// A damaged weight or state on one rank is found before the update would spread it.
TEST(Trainer, StopsAtADamagedWeightOrStateAndLeavesTheWeights) {
  for (const int ranks : {1, 3})
    for (const bool state : {false, true})
      for (const float bad : {NAN, INFINITY})
        run_thread_ranks(ranks, [&](Comm& comm) {
          SmallRun untouched, run;
          untouched.steps = 2;
          untouched.run(comm);
          run.nonfinite_patience = 3;
          run.damage = [&](std::int64_t done, std::span<Shard> shards) {
            if (done == 2 && comm.rank() == ranks - 1) (state ? shards[3].state : shards[3].value)[4] = bad;
          };
          try {
            run.run(comm);
            ADD_FAILURE() << "the run did not end";
          } catch (const Error& e) {
            EXPECT_EQ(e.code(), ExitCode::diverged);
            EXPECT_THAT(e.what(), testing::MatchesRegex(
                                      std::string(state ? "optimizer state 'state0'" : "the value") +
                                      " of model\\..*, element 4 is not a finite number.*step 3 was not made.*"));
          }
          ASSERT_EQ(run.values.size(), untouched.values.size());
          int changed = 0;
          for (std::size_t i = 0; i < run.values.size(); ++i) changed += !(run.values[i] == untouched.values[i]);
          EXPECT_EQ(changed, !state && comm.rank() == ranks - 1 ? 1 : 0);
          EXPECT_FALSE(file_exists(run.folder / "checkpoint-3"));
        });
}

TEST(Trainer, SavesNothingDamaged) {
  auto comm = make_self_comm();
  SmallRun run;
  run.steps = 2;
  run.diary().answer = [](std::int64_t step) { return Action{.save = step == 1}; };
  run.evaluators.push_back(std::make_unique<Numbers>(std::vector<double>{0.5, 0.5}));
  bool damaged = false;
  run.every = 1;
  struct Spoil : Evaluator {
    bool& done;
    explicit Spoil(bool& d) : done(d) {}
    std::vector<Metric> metrics() const override { return {{"spoilt", true}}; }
    void evaluate(const EvaluationContext& c, EvaluationResult& result) override {
      c.strategy.shards()[0].state[0] = NAN, done = true;
      result.values.push_back({"spoilt", 1});
    }
  };
  run.evaluators.push_back(std::make_unique<Spoil>(damaged));
  try {
    run.run(*comm);
    ADD_FAILURE() << "the run did not end";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("no checkpoint was written after step 1"));
  }
  EXPECT_TRUE(damaged);
  EXPECT_FALSE(file_exists(run.folder / "checkpoint-1"));
}

TEST(Trainer, CountsOnlyStepsInARow) {
  auto comm = make_self_comm();
  SmallRun run;
  run.nonfinite_patience = 2;
  run.objective.gradients = {0, 2};
  EXPECT_EQ(run.run(*comm).step, 4);
  for (const float v : run.values) ASSERT_TRUE(std::isfinite(v));
}

TEST(BestModel, UsesItsMetricAndDirectionAndResumesItsState) {
  const auto eval = [](std::int64_t step, std::vector<NamedValue> values) {
    return EvalMetrics{step, 0, std::move(values)};
  };
  BestModel best({{"score", true}, true, 2});
  EXPECT_FALSE(best.on_eval(eval(0, {{"score", 2}}), {}).save);  // the untrained model does not compete
  EXPECT_TRUE(best.on_eval(eval(1, {{"eval_loss", 9}, {"score", 0.5}}), {}).save);
  EXPECT_FALSE(best.on_eval(eval(2, {{"eval_loss", 1}}), {}).finish);  // says nothing of the metric
  EXPECT_FALSE(best.on_eval(eval(3, {{"score", 0.5}}), {}).save);      // as good is not better
  TrainState state;
  best.write_state(state);
  EXPECT_EQ(state.best_metric, 0.5);
  EXPECT_EQ(state.best_step, 1);
  BestModel resumed({{"score", true}, true, 2});
  resumed.read_state(state, "checkpoint-3");
  EXPECT_FALSE(resumed.on_start({}).finish);
  EXPECT_TRUE(resumed.on_eval(eval(4, {{"score", NAN}}), {}).finish);  // the second without improvement
  EXPECT_TRUE(resumed.on_eval(eval(5, {{"score", 0.75}}), {}).save);

  testing::internal::CaptureStderr();
  best.on_end({RunEnd::Reason::finished_early, 3, 3});  // another observer ended it
  resumed.on_end({RunEnd::Reason::finished_early, 5, 5});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  resumed.on_eval(eval(6, {{"score", 0.5}}), {}), resumed.on_eval(eval(7, {{"score", 0.5}}), {});
  testing::internal::CaptureStderr();
  resumed.on_end({RunEnd::Reason::finished_early, 7, 7});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "Stopped early at step 7: score has not improved for 2 evaluations\n");

  BestModel loss({{"eval_loss"}, false, {}});
  EXPECT_FALSE(loss.on_eval(eval(1, {{"eval_loss", NAN}}), {}).save);
  loss.on_eval(eval(2, {{"eval_loss", 2.0}}), {});
  loss.write_state(state);
  EXPECT_EQ(state.best_step, 2);
}

TEST(LossWatchdog, TripsAfterSoManyStepsInARow) {
  LossWatchdog dog(5, 3);
  const auto at = [&](double loss) { dog.on_step({.step = 7, .loss = loss}); };
  for (const double loss : {6.0, 6.0, 4.0, 6.0, 6.0}) EXPECT_NO_THROW(at(loss));
  try {
    at(6.0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::diverged);
    EXPECT_STREQ(e.what(), "step 7: loss 6.0000 is above loss_watchdog_threshold 5 for 3 steps");
  }
  // A run that is resumed continues to count.
  LossWatchdog before(5, 3), after(5, 3);
  before.on_step({.step = 1, .loss = 6});
  before.on_step({.step = 2, .loss = 6});
  TrainState state;
  before.write_state(state);
  after.read_state(state, "checkpoint-2");
  EXPECT_THROW(after.on_step({.step = 3, .loss = 6}), Error);
}

}  // namespace
}  // namespace dml
