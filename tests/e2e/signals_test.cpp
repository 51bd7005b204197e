// Signals: a checkpoint on SIGUSR1, a checkpoint and exit 75 on SIGUSR2 and SIGTERM; a rank that is killed ends them
// all. Commands that write a file end at once and leave nothing.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::HasSubstr;

class Signals : public Workshop {
 protected:
  Keys long_run(int steps) const {
    return tiny_lora() + Keys{{"max_steps", std::to_string(steps)}, {"save_strategy", "no"}, {"eval_steps", "1000"}};
  }
  // Should a test end early, a rank that stopped itself would stay.
  void TearDown() override {
    for (pid_t rank : ranks_with(folder_)) kill(rank, SIGKILL);
  }

  struct Stopped : StoppedRun {
    Stopped(int ranks, const std::string& recipe, int step)
        : StoppedRun(on_ranks(ranks, {"train", recipe}), recipe, ranks, step) {}
  };

  std::vector<fs::path> checkpoints(const std::string& out) const {
    std::vector<fs::path> found;
    for (auto& entry : fs::directory_iterator(at(out)))
      if (entry.path().filename().string().starts_with("checkpoint-") && file_exists(entry.path() / "manifest.json"))
        found.push_back(entry.path());
    return found;
  }

  void interrupt_evaluation(int ranks, int signal);
  void stop_and_resume(int ranks, int signal) {
    const int steps = 300;
    ASSERT_EQ(train(1, recipe("whole.yml", long_run(steps) + Keys{{"output_dir", at("whole")}})).exit, 0);
    std::string r = recipe("r.yml", long_run(steps));
    Stopped run(ranks, r, 5);
    ASSERT_NE(run.rank, 0);
    run.child.signal(signal);  // to mpirun, which passes it on
    ASSERT_TRUE(soon([&] { return has_pending(run.rank, signal); }));
    run.resume();
    Ended e = run.child.wait();
    EXPECT_EQ(e.exit, 75) << e.err;
    EXPECT_THAT(e.err, HasSubstr("--resume auto"));
    EXPECT_EQ(checkpoints("out").size(), 1u);
    EXPECT_FALSE(file_exists(at("out/adapter_model.safetensors")));
    Ended resumed = train(ranks, r, {"--resume", "auto"});
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_EQ(results_in(at("out")), results_in(at("whole")));
    EXPECT_EQ(numbers_of(at("out/metrics.jsonl")), numbers_of(at("whole/metrics.jsonl")));
  }
};

TEST_F(Signals, StopWithoutSavingIfSavingIsOff) {
  std::string r = recipe("r.yml", long_run(300) + Keys{{"save_on_signal", "false"}});
  for (int signal : {SIGTERM, SIGUSR2}) {
    Stopped run(1, r, 5);
    ASSERT_NE(run.rank, 0);
    run.child.signal(signal);
    run.resume();
    Ended e = run.child.wait();
    EXPECT_EQ(e.exit, 75) << e.err;
    EXPECT_THAT(e.err, HasSubstr("nothing was saved"));
    EXPECT_TRUE(checkpoints("out").empty());
    std::filesystem::remove_all(at("out"));
  }
}

TEST_F(Signals, Usr1SavesAndContinues) {
  Stopped run(1, recipe("r.yml", long_run(300)), 3);
  ASSERT_NE(run.rank, 0);
  run.child.signal(SIGUSR1);
  run.resume();
  Ended e = run.child.wait();
  EXPECT_EQ(e.exit, 0) << e.err;
  ASSERT_EQ(checkpoints("out").size(), 1u);
  EXPECT_NE(checkpoints("out")[0].filename(), "checkpoint-300");
  EXPECT_TRUE(file_exists(at("out/adapter_model.safetensors")));
}

TEST_F(Signals, Usr2StopsAndTheRunResumesWithTheSameBits) { stop_and_resume(1, SIGUSR2); }
TEST_F(Signals, TermStopsAndTheRunResumesWithTheSameBits) { stop_and_resume(1, SIGTERM); }
TEST_F(Signals, IntStopsAndTheRunResumesWithTheSameBits) { stop_and_resume(1, SIGINT); }
TEST_F(Signals, HupStopsAndTheRunResumesWithTheSameBits) { stop_and_resume(1, SIGHUP); }
TEST_F(Signals, HupStaysIgnored) {
  std::string r = recipe("r.yml", long_run(300));
  StoppedRun run({"sh", "-c", "trap '' HUP; exec " + dml_path() + " train " + r}, r, 1, 5);
  ASSERT_NE(run.rank, 0);
  run.child.signal(SIGHUP);
  run.resume();
  Ended e = run.child.wait();
  EXPECT_EQ(e.exit, 0) << e.err;
}

TEST_F(Signals, Usr2StopsAllRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  stop_and_resume(2, SIGUSR2);
}

// A rank stops itself at the beginning of the evaluation after step 5.
void Signals::interrupt_evaluation(int ranks, int signal) {
  const Keys keys = tiny_lora() + Keys{{"save_strategy", "no"}, {"eval_on_start", "false"}};
  ASSERT_EQ(train(1, recipe("whole.yml", keys + Keys{{"output_dir", at("whole")}})).exit, 0);
  const std::string r = recipe("r.yml", keys);
  Child child(on_ranks(ranks, {"train", r}),
              {.environment = {fmt::format("DML_FAULT=rank={},point=evaluation,kind=stop,step=5", ranks - 1)}});
  const pid_t rank = stopped_rank(r);
  ASSERT_NE(rank, 0);
  child.signal(signal);
  ASSERT_TRUE(soon([&] { return has_pending(rank, signal); }));
  kill(rank, SIGCONT);
  const Ended e = child.wait();
  EXPECT_EQ(e.exit, 75) << e.err;
  EXPECT_THAT(e.err, HasSubstr("The evaluation after step 5 was interrupted"));
  EXPECT_TRUE(file_exists(at("out/checkpoint-5/manifest.json")));
  const Ended resumed = train(ranks, r, {"--resume", "auto"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(results_in(at("out")), results_in(at("whole")));
  EXPECT_EQ(numbers_of(at("out/metrics.jsonl")), numbers_of(at("whole/metrics.jsonl")));
}

TEST_F(Signals, EndAnEvaluationThatTheResumedRunRepeats) { interrupt_evaluation(1, SIGTERM); }
TEST_F(Signals, EndAnEvaluationOnAllRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  interrupt_evaluation(2, SIGUSR2);
}

TEST_F(Signals, AKilledRankEndsTheOthers) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  std::string r = recipe("r.yml", long_run(300));
  Stopped run(2, r, 3);
  ASSERT_NE(run.rank, 0);
  EXPECT_EQ(ranks_with(r).size(), 2u);
  kill(run.rank, SIGKILL);
  Ended e = run.child.wait(r);
  EXPECT_NE(e.exit, 0);
  EXPECT_FALSE(e.timed_out);
  EXPECT_TRUE(soon([&] { return processes_with(r).empty(); })) << "processes are left";
}

TEST_F(Signals, AKilledRunResumesFromItsLastCheckpoint) {
  Keys keys = long_run(200) + Keys{{"save_strategy", ""}, {"save_steps", "10"}};
  ASSERT_EQ(train(1, recipe("whole.yml", keys + Keys{{"output_dir", at("whole")}})).exit, 0);
  std::string r = recipe("r.yml", keys);
  {
    Stopped run(1, r, 37);
    ASSERT_NE(run.rank, 0);
    run.child.signal(SIGKILL);
    EXPECT_EQ(run.child.wait().exit, 128 + SIGKILL);
  }
  Ended resumed = train(1, r, {"--resume", "auto"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_EQ(results_in(at("out")), results_in(at("whole")));
  EXPECT_EQ(numbers_of(at("out/metrics.jsonl")), numbers_of(at("whole/metrics.jsonl")));
}

// So many rows that the command does not come to its end before the signal.
TEST_F(Signals, IntEndsACommandThatWritesAFileAndLeavesNothing) {
  alpaca("rows.jsonl", 20000);
  const auto begun = [&] {
    return std::ranges::any_of(fs::directory_iterator(folder_), [](const fs::directory_entry& entry) {
      return entry.path().filename().string().starts_with(".answers.tmp-");
    });
  };
  Child child(on_ranks(1, {"score", recipe("r.yml", tiny_lora()), "--adapter", "none", "--output", at("answers")}));
  ASSERT_TRUE(soon(begun));
  child.signal(SIGINT);
  const Ended e = child.wait();
  EXPECT_EQ(e.exit, 130) << e.err;
  EXPECT_THAT(e.err, HasSubstr("interrupted; unfinished output was removed"));
  EXPECT_EQ(names_left("answers"), "");
}

class KeptAnswers : public Signals {
 protected:
  static constexpr int kRows = 300;  // more than are answered together

  // Rows whose answers are sampled: those of a run that was continued must not depend on where it stopped.
  std::string prompts() const {
    std::string rows;
    for (int i = 0; i < kRows; ++i) rows += fmt::format("{{\"prompt\": \"What is {}?\"}}\n", i);
    return write("in.jsonl", rows);
  }
  std::string requests() const {
    std::string rows;
    for (int i = 0; i < kRows; ++i)
      rows += dump(Json{{"custom_id", std::to_string(i)},
                        {"method", "POST"},
                        {"url", "/v1/completions"},
                        {"body", {{"prompt", fmt::format("What is {}?", i)}, {"max_tokens", 40}, {"seed", i}}}}) +
              "\n";
    return write("batch.jsonl", rows);
  }
  // Interrupts the command once a few rows are there; returns how many it has left.
  std::size_t interrupt(const Words& words, int signal) {
    const std::string partial = at("answers.partial");
    const auto rows = [&] {
      const std::string text = file_exists(partial) ? read_file(partial) : "";
      return static_cast<std::size_t>(std::ranges::count(text, '\n'));
    };
    Child child(on_ranks(1, words));
    EXPECT_TRUE(soon([&] { return rows() >= 3; }));
    child.signal(signal);
    const Ended e = child.wait();
    const std::size_t kept = rows();
    EXPECT_EQ(read_file(at("answers")), "earlier\n") << "the output of before";
    EXPECT_TRUE(read_file(partial).ends_with('\n'));
    EXPECT_EQ(json_lines(partial).size(), kept);
    if (signal == SIGKILL) return kept;
    EXPECT_EQ(e.exit, 130) << e.err;
    EXPECT_THAT(e.err, HasSubstr(fmt::format("interrupted; {} of {} rows are in {}; the same command with --resume "
                                             "continues after them",
                                             kept, kRows, partial)));
    return kept;
  }
  void interrupt_and_resume(Words words, const std::string& field, int signal) {
    words.insert(words.end(), {"--output", at("whole")});
    ASSERT_EQ(dml(words).exit, 0);
    words.back() = at("answers");
    write("answers", "earlier\n");
    const std::size_t kept = interrupt(words, signal);
    ASSERT_LT(kept, kRows);
    expect_refused(dml(words), 2, {"answers.partial has rows of an interrupted run", "--resume"});
    if (signal == SIGKILL) {  // as if the last row had been cut off
      const std::string text = read_file(at("answers.partial"));
      write("answers.partial", text.substr(0, text.size() - 9));
    }
    words.push_back("--resume");
    const Ended resumed = dml(words);
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_EQ(names_left("answers"), at("answers") + "\n");
    const std::vector<Json> all = json_lines(at("answers")), whole = json_lines(at("whole"));
    ASSERT_EQ(all.size(), whole.size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(text_of(all[i], field), text_of(whole[i], field)) << i;
  }
  static Json text_of(const Json& row, const std::string& field) {
    return field == "output" ? row : Json{row["custom_id"], row["response"]["body"]["choices"]};
  }
};

TEST_F(KeptAnswers, OfRowsAreContinued) {
  const Words infer{
      "infer", "--base-model", base_directory(), "--input", prompts(), "--temperature", "1", "--max-new-tokens", "40"};
  interrupt_and_resume(infer, "output", SIGINT);
}

TEST_F(KeptAnswers, OfRequestsAreContinued) {
  interrupt_and_resume({"serve", "--base-model", base_directory(), "--input", requests()}, "choices", SIGTERM);
}

TEST_F(KeptAnswers, AreThereAfterAKill) {
  interrupt_and_resume({"infer", "--base-model", base_directory(), "--input", requests()}, "choices", SIGKILL);
}

TEST_F(KeptAnswers, OfOtherRowsAreRefused) {
  const std::string row = "{\"prompt\": \"What is 0?\", \"output\": \"x\"}\n";
  const Words infer{"infer", "--base-model", base_directory(), "--input", prompts(), "--max-new-tokens",
                    "1",     "--output",     at("answers"),    "--resume"};
  for (const std::string& kept : {row, row + row, std::string("{\"prompt\": \"What is 0?\"}\n"), std::string("[]\n")}) {
    write("answers.partial", kept);
    expect_refused(dml(infer), 2, {"is not the result of row"});
    EXPECT_EQ(read_file(at("answers.partial")), kept);
  }
  const Words serve{"serve",    "--base-model", base_directory(), "--input",
                    requests(), "--output",     at("answers"),    "--resume"};
  write("answers.partial", "{\"custom_id\": \"0\", \"response\": null}\n");
  expect_refused(dml(serve), 2, {"is not the result of row 1"});
  write("answers.partial", "{\"custom_id\": \"0\", \"response\": {\"status_code\": \"200\"}}\n");
  expect_refused(dml(serve), 2, {"answers.partial:1: 'status_code' must be a whole number"});
  Words into_input = infer;
  into_input[4] = at("answers.partial");
  expect_refused(dml(into_input), 2, {"is an input"});
}

}  // namespace
}  // namespace dml::e2e
