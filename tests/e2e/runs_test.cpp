// A run and its folder: resuming and extending it, a second run in the same folder, and the last line of the log.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Runs : public Workshop {
 protected:
  Keys long_run(int steps) const {
    return tiny_lora() + Keys{{"max_steps", std::to_string(steps)}, {"save_strategy", "no"}, {"eval_steps", "1000"}};
  }
  Keys constant(int steps) const {
    return tiny_lora() + Keys{{"max_steps", std::to_string(steps)}, {"lr_scheduler", "constant"}, {"warmup_steps", ""}};
  }
  void expect_same_run(const std::string& one, const std::string& other) {
    EXPECT_EQ(results_in(at(one)), results_in(at(other)));
    EXPECT_FALSE(results_in(at(one)).empty());
  }
  Ended stop(const StoppedRun& run, Child& child, int signal) {
    EXPECT_NE(run.rank, 0);
    child.signal(signal);
    EXPECT_TRUE(soon([&] { return has_pending(run.rank, signal) || has_pending(run.rank, SIGUSR2); }));
    run.resume();
    return child.wait();
  }
};

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

TEST_F(Runs, AreResumedByTheirFolderWithTheSettingsOfTheCommandLine) {
  ASSERT_EQ(train(1, recipe("whole.yml", long_run(60) + Keys{{"output_dir", at("whole")}})).exit, 0);
  std::string r = recipe("r.yml", long_run(5));
  StoppedRun run(on_ranks(1, {"train", r, "--max_steps", "60"}), r, 1, 5);
  Ended e = stop(run, run.child, SIGTERM);
  EXPECT_EQ(e.exit, 75) << e.err;
  EXPECT_THAT(e.err, HasSubstr(fmt::format("To resume: {} resume {}\n", dml_path(), at("out"))));
  EXPECT_THAT(e.err, HasSubstr(fmt::format("{} train {} --max_steps 60 --resume auto\n", dml_path(), r)));

  // The recipe may be edited and the folder moved: the run continues unchanged.
  write("r.yml", "lora_r: 3\n");
  fs::rename(at("out"), at("moved"));
  Ended shown = dml({"resume", at("moved"), "--dry-run"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("--max_steps 60"), HasSubstr("--output_dir " + at("moved"))));
  Ended resumed = dml({"resume", at("moved")});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("Resuming: "), HasSubstr("(step 6)")));
  expect_same_run("moved", "whole");
}

TEST_F(Runs, UnderLaunchAreStoppedByCtrlCAndResumedOnAsManyRanks) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  ASSERT_EQ(train(1, recipe("whole.yml", long_run(40) + Keys{{"output_dir", at("whole")}})).exit, 0);
  std::string r = recipe("r.yml", long_run(40));
  StoppedRun run({dml_path(), "launch", "-n", "2", "train", r}, r, 2, 5);
  Ended e = stop(run, run.child, SIGINT);
  EXPECT_EQ(e.exit, 75) << e.err;
  EXPECT_THAT(e.err, HasSubstr(fmt::format("launch -n 2 train {} --resume auto\n", r)));
  Json record = read_json(at("out/run.json"));
  record["launch"].insert(record["launch"].end(), {"--interface", "lo"});  // as earlier versions recorded it
  write_file(at("out/run.json"), record.dump());
  Ended resumed = dml({"resume", at("out")});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("2 ranks"), HasSubstr("(step 6)")));
  expect_same_run("out", "whole");
}

TEST_F(Runs, OnRanksOfTheirOwnHaveTheBitsOfOne) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  const Keys keys = long_run(30) + Keys{{"batch_size", ""}, {"gradient_accumulation_steps", "4"}};
  ASSERT_EQ(train(1, recipe("whole.yml", keys + Keys{{"output_dir", at("whole")}})).exit, 0);
  std::string r = recipe("r.yml", keys);
  {
    StoppedRun run({dml_path(), "train", r, "--ranks", "2"}, r, 2, 5);
    EXPECT_EQ(ranks_with(r).size(), 3u) << "two, and the one that waits for them";
    Ended e = stop(run, run.child, SIGINT);
    EXPECT_EQ(e.exit, 75) << e.err;
    EXPECT_THAT(e.err, HasSubstr("up to 4 micro-batches"));
    EXPECT_THAT(e.err, HasSubstr("2 ranks × 1 thread (ddp; ranks: 2)"));
    EXPECT_THAT(e.err, HasSubstr(fmt::format("{} train {} --ranks 2 --resume auto\n", dml_path(), r)));
  }
  EXPECT_TRUE(soon([&] { return processes_with(r).empty(); })) << "processes are left";
  Ended resumed = dml({"resume", at("out")});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("2 ranks × 1 thread"), HasSubstr("(step 6)")));
  expect_same_run("out", "whole");
  EXPECT_EQ(numbers_of(at("out/metrics.jsonl")), numbers_of(at("whole/metrics.jsonl")));
  // A launcher's number of ranks counts; the plan says what a plain start does.
  std::string three = recipe("three.yml", keys + Keys{{"ranks", "3"}, {"max_steps", "1"}});
  EXPECT_THAT(train(2, three, {"--output_dir", at("two")}).err, HasSubstr("2 ranks × 1 thread (ddp)"));
  EXPECT_THAT(dml({"plan", three}).err, HasSubstr("dml train runs as 3 ranks × 1 thread (ranks: 3)"));
  expect_refused(dml({"train", three, "--ranks", "some"}), 2, {"'ranks' must be", "auto"});
}

TEST_F(Runs, AreMeasuredByLaunchForTheFastestLayout) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  std::string r = recipe("r.yml", long_run(4));
  Ended e = dml({"launch", "--autotune", "--dry-run", "train", r, "--batch_size", "2"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, AllOf(HasSubstr("1 rank × "), HasSubstr(" tokens/s"), HasSubstr("Fastest: ")));
  EXPECT_THAT(e.out, AllOf(HasSubstr("mpirun "), HasSubstr("train " + r + " --batch_size 2 --threads ")));
  expect_refused(dml({"launch", "--autotune", "-n", "2", "train", r}), 2, {"leave out -n"});
  // A plain run says so where its threads wait.
  EXPECT_THAT(dml({"train", r, "--batch_size", "4", "--threads", "4"}).err,
              HasSubstr("dml launch --autotune train " + r));
  expect_refused(dml({"launch", "-n", "2", "--dry-run", "train"}), 2, {"RECIPE is required"});
  expect_refused(dml({"launch", "train", r, "--dry-run"}), 2, {"before the command: dml launch --dry-run … train"});
  expect_refused(dml({"launch", "--autotune", "evaluate", r}), 2, {"launch --autotune train recipe.yml"});
  expect_refused(dml({"launch", "--autotune", "train", r, "--threads", "x"}), 2, {"threads"});
}

TEST_F(Runs, WhoseLauncherFailsAreNotTakenForADefectOrASignal) {
  const std::string r = recipe("r.yml", long_run(4)), hosts = write("hosts", "node1 slots=2\n");
  std::filesystem::create_directory(at("bin"));
  const auto launched = [&](const std::string& mpirun, Words words) {
    write("bin/mpirun", "#!/bin/sh\n" + mpirun + "\n");
    std::filesystem::permissions(at("bin/mpirun"), std::filesystem::perms::owner_all);
    words.insert(words.begin(), "launch");
    words.insert(words.end(), {"train", r});
    return dml(words, {.environment = {"PATH=" + at("bin") + ":" + std::getenv("PATH")}});
  };
  Ended e = launched("exit 243", {"-n", "2"});
  EXPECT_EQ(e.exit, 6);
  EXPECT_THAT(e.err, AllOf(HasSubstr("mpirun cannot start 2 ranks here"), Not(HasSubstr("signal"))));
  e = launched("case \"$*\" in *--trial-rank*) exit 0;; esac; exit 243", {"-n", "2"});
  EXPECT_EQ(e.exit, 6);
  EXPECT_THAT(e.err, HasSubstr("mpirun failed with code 243"));
  e = launched("exit 1", {"--hostfile", hosts});
  EXPECT_EQ(e.exit, 6);
  EXPECT_THAT(e.err, HasSubstr("mpirun cannot start ranks on the hosts of " + hosts));
  e = launched("exit 139", {"-n", "2"});
  EXPECT_EQ(e.exit, 139);
  EXPECT_THAT(e.err, HasSubstr("a rank was ended by signal 11"));
}

TEST_F(Runs, UnderMpirunAreResumedByTheSameLine) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  std::string r = recipe("r.yml", long_run(40));
  StoppedRun run(on_ranks(2, {"train", r}), r, 2, 5);
  Ended e = stop(run, run.child, SIGUSR2);
  EXPECT_EQ(e.exit, 75) << e.err;
  Ended shown = dml({"resume", at("out"), "--dry-run"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("mpirun --oversubscribe --bind-to none -np 2 "), HasSubstr("--resume auto")));
  Ended resumed =
      dml({"resume", at("out")}, {.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("2 ranks"));
}

TEST_F(Runs, AreNotResumedWithoutACheckpoint) {
  expect_refused(dml({"resume", at("nowhere")}), 2, {at("nowhere"), "no such directory"});
  fs::create_directory(at("empty"));
  expect_refused(dml({"resume", at("empty")}), 2, {at("empty"), "holds no run"});
  // Stopped before its first checkpoint: a resume would start anew.
  std::string r = recipe("r.yml", long_run(40) + Keys{{"save_on_signal", "false"}});
  StoppedRun run(on_ranks(1, {"train", r}), r, 1, 3);
  Ended e = stop(run, run.child, SIGTERM);
  EXPECT_EQ(e.exit, 75);
  EXPECT_THAT(e.err,
              AllOf(HasSubstr("nothing was saved"), Not(HasSubstr("To resume")), HasSubstr("train " + r + "\n")));
  expect_refused(dml({"resume", at("out")}), 2, {"no complete checkpoint", "train " + r});
}

TEST_F(Runs, AreExtendedIfPastLearningRatesAreUnchanged) {
  ASSERT_EQ(train(1, recipe("whole.yml", constant(20) + Keys{{"output_dir", at("whole")}})).exit, 0);
  ASSERT_EQ(train(1, recipe("r.yml", constant(10))).exit, 0);
  expect_refused(dml({"resume", at("out"), "--output_dir", at("new")}), 2,
                 {"the run continues in its own directory", "--resume"});
  Ended longer = dml({"resume", at("out"), "--max_steps", "20"});
  EXPECT_EQ(longer.exit, 0) << longer.err;
  EXPECT_THAT(longer.err, HasSubstr("Extending the run from 10 to 20 steps (max_steps 10 → 20)"));
  expect_same_run("out", "whole");
  EXPECT_THAT(dml({"resume", at("out")}).err, HasSubstr("complete: step 20 of 20. Raise max_steps to extend it"));
  EXPECT_THAT(dml({"resume", at("out"), "--num_epochs", "7"}).err,
              AllOf(HasSubstr("complete: step 20 of 20"), Not(HasSubstr("the run from"))))
      << "max_steps decides";

  ASSERT_EQ(train(1, recipe("c.yml", tiny_lora() + Keys{{"num_epochs", "1"}, {"output_dir", at("cosine")}})).exit, 0);
  const Ended complete = dml({"resume", at("cosine")});
  EXPECT_EQ(complete.exit, 0) << complete.err;
  EXPECT_THAT(complete.err, AllOf(HasSubstr("step 10 of 10. A run with lr_scheduler: cosine cannot be extended"),
                                  HasSubstr("lora_model_dir: " + at("cosine")), Not(HasSubstr("Raise"))));
  expect_refused(
      dml({"resume", at("cosine"), "--num_epochs", "2"}), 2,
      {"The recipe changed since this checkpoint: num_epochs 1 → 2", "10", "20", "cosine", "lora_model_dir"});
}

TEST_F(Runs, DoNotWriteIntoTheSameFolderAtOnce) {
  std::string r = recipe("r.yml", long_run(40));
  StoppedRun run(on_ranks(1, {"train", r}), r, 1, 5);
  ASSERT_NE(run.rank, 0);
  expect_refused(train(1, r), 2, {"output_dir", at("out"), fmt::format("process {}", run.rank)});
  expect_refused(train(1, r, {"--resume", "auto"}), 2, {"output_dir"});
  run.resume();
  EXPECT_EQ(run.child.wait().exit, 0);
  EXPECT_EQ(names_left(".lock"), "");
  {
    StoppedRun killed(on_ranks(1, {"train", r}), r, 1, 5);
    ASSERT_NE(killed.rank, 0);
    kill(killed.rank, SIGKILL);
    EXPECT_EQ(killed.child.wait().exit, 128 + SIGKILL);
  }
  EXPECT_EQ(train(1, r).exit, 0) << "a dead run holds no lock";
}

TEST_F(Runs, ArchiveAnEarlierRun) {
  std::string r = recipe("r.yml", tiny_lora());
  ASSERT_EQ(train(1, r).exit, 0);
  write("out/notes.txt", "mine\n");
  auto first = results_in(at("out"));
  Ended again = train(1, r, {"--seed", "11"});
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(results_in(at("out/earlier-1")), first);
  EXPECT_NE(results_in(at("out")), first);
  for (const char* name :
       {"metrics.jsonl", "checkpoint-10", "report.html", "run.json", "recipe.yml", "tokenizer_config.json"})
    EXPECT_TRUE(file_exists(at("out/earlier-1/") + name)) << name;
  EXPECT_TRUE(file_exists(at("out/notes.txt")));
  EXPECT_THAT(again.err, AllOf(HasSubstr("Moved the earlier run (1 checkpoint and result, "),
                               HasSubstr("B) to " + at("out/earlier-1")),
                               HasSubstr(fmt::format("dml ckpt rm {} earlier-1", at("out")))));
  Ended resumed = dml({"resume", at("out/earlier-1")});  // it is a run of its own
  EXPECT_EQ(resumed.exit, 0) << resumed.err;

  ASSERT_EQ(train(1, r).exit, 0);
  Ended fourth = train(1, r);
  EXPECT_THAT(fourth.err, AllOf(HasSubstr("warning: "), HasSubstr("holds 3 earlier runs"), HasSubstr("ckpt rm")));
  EXPECT_THAT(dml({"ckpt", "ls", at("out")}).out, AllOf(HasSubstr("earlier-1"), HasSubstr("earlier-3")));
  EXPECT_EQ(dml({"ckpt", "rm", at("out"), "earlier-2"}).exit, 0);
  EXPECT_FALSE(file_exists(at("out/earlier-2")));
  EXPECT_TRUE(file_exists(at("out/earlier-1")));
  EXPECT_EQ(dml({"ckpt", "rm", at("out"), "earlier"}).exit, 0);
  EXPECT_FALSE(file_exists(at("out/earlier-1")));
  expect_refused(dml({"ckpt", "rm", at("out"), "earlier-9"}), 2, {"earlier-9"});
}

TEST_F(Runs, MoveFilesAsideThatTheyWouldReplace) {
  fs::create_directory(at("out"));
  write("out/README.md", "mine");
  write("out/notes.txt", "stays");
  const Ended e = train(1, recipe("r.yml", tiny_lora()));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, HasSubstr("Moved files of " + at("out") + " that the run would replace (README.md)"));
  EXPECT_EQ(read_file(at("out/earlier-1/README.md")), "mine");
  EXPECT_EQ(read_file(at("out/notes.txt")), "stays");
}

TEST_F(Runs, GoBackToAnEarlierCheckpoint) {
  const std::string r = recipe("r.yml", tiny_lora() + Keys{{"save_steps", "2"}, {"max_steps", "6"}});
  ASSERT_EQ(train(1, r).exit, 0);
  const auto result = results_in(at("out"));
  const Ended back = train(1, r, {"--resume", at("out/checkpoint-2")});
  ASSERT_EQ(back.exit, 0) << back.err;
  EXPECT_THAT(back.err,
              HasSubstr("Moved checkpoints after step 2 (checkpoint-6, checkpoint-4) to " + at("out/earlier-1")));
  EXPECT_TRUE(fs::exists(at("out/earlier-1/checkpoint-4/manifest.json")));
  EXPECT_EQ(results_in(at("out")), result);
  std::int64_t step = 0;
  for (const Json& line : json_lines(at("out/metrics.jsonl")))
    if (!line.contains("event")) {
      EXPECT_EQ(line["step"], ++step);
    }
  EXPECT_EQ(step, 6);
}

TEST_F(Runs, DoNotRoundTrainedWeightsToFrozenStorage) {
  const Keys full =
      tiny_lora() + Keys{{"adapter", ""},      {"lora_r", ""},    {"lora_alpha", ""}, {"lora_target_linear", ""},
                         {"lora_dropout", ""}, {"max_steps", "1"}};
  ASSERT_EQ(train(1, recipe("r.yml", full)).exit, 0);
  const Ended e = train(1, recipe("b.yml", full + Keys{{"frozen_storage", "bf16"}, {"output_dir", at("bf16")}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(read_file(at("bf16/model.safetensors")), read_file(at("out/model.safetensors")));
}

TEST_F(Runs, DoNotEvaluateWithEvalStrategyNo) {
  const Keys keys = tiny_lora() + Keys{{"eval_strategy", "no"}, {"eval_steps", ""}, {"max_steps", "2"}};
  const Ended e = train(1, recipe("r.yml", keys));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.err, AllOf(HasSubstr("0 evaluations, 1 checkpoint,"), Not(HasSubstr("validation loss"))));
  expect_refused(train(1, recipe("b.yml", keys + Keys{{"early_stopping_patience", "2"}})), 2,
                 {"'early_stopping_patience' needs evaluations"});
}

TEST_F(Runs, TakeTheirBestModelByAnyMetricOfTheirEvaluations) {
  alpaca("near.jsonl", 4, 100);
  alpaca("far.jsonl", 6, 200);
  const Keys keys =
      tiny_lora() + Keys{{"val_set_size", ""},
                         {"test_datasets", fmt::format("[{{path: {}, type: alpaca}}, {{path: {}, type: alpaca}}]",
                                                       at("near.jsonl"), at("far.jsonl"))},
                         {"eval_steps", "2"},
                         {"save_strategy", "best"},
                         {"load_best_model_at_end", "true"},
                         {"metric_for_best_model", "far_loss"},
                         {"greater_is_better", "true"}};
  Ended e = train(1, recipe("r.yml", keys));
  ASSERT_EQ(e.exit, 0) << e.err;
  double worst = -1;
  int worst_step = -1;
  for (const Json& line : json_lines(at("out/metrics.jsonl"))) {
    if (line.value("event", "") != "eval") continue;
    EXPECT_TRUE(line.contains("eval_near_loss")) << line.dump();
    if (line["step"] > 0 && line.at("eval_far_loss").get<double>() > worst)
      worst = line["eval_far_loss"], worst_step = line["step"];
  }
  EXPECT_THAT(e.err, HasSubstr(fmt::format("of step {}, whose eval_far_loss", worst_step)));

  Ended wrong = train(1, recipe("w.yml", keys + Keys{{"metric_for_best_model", "eval_fat_loss"}}));
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.err,
              AllOf(HasSubstr("w.yml:"), HasSubstr("'eval_fat_loss'"), HasSubstr("did you mean 'eval_far_loss'"),
                    HasSubstr("eval_loss, eval_ppl, eval_near_loss, eval_far_loss")));
}

TEST_F(Runs, LogForOtherProgramsWithoutChangingBits) {
  const Keys keys = tiny_lora() + Keys{{"max_steps", "4"}, {"eval_steps", "2"}};
  ASSERT_EQ(train(1, recipe("plain.yml", keys + Keys{{"output_dir", at("plain")}})).exit, 0);
  Ended e = train(1, recipe("logs.yml", keys + Keys{{"output_dir", at("logs")},
                                                    {"use_tensorboard", "true"},
                                                    {"use_mlflow", "true"},
                                                    {"wandb_project", "ahoy"}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  expect_same_run("plain", "logs");
  std::string found;
  for (auto& entry : fs::recursive_directory_iterator(at("logs"))) found += entry.path().string() + "\n";
  const std::string params = found.substr(0, found.find("/params/lora_r\n"));
  EXPECT_EQ(read_file(params.substr(params.rfind('\n') + 1) + "/params/lora_r"), "4");
  EXPECT_THAT(found,
              AllOf(HasSubstr("/runs/events.out.tfevents."), HasSubstr("/metrics/eval_loss\n"), HasSubstr(".wandb\n")));
  // They are moved aside with the run that they are of.
  ASSERT_EQ(train(1, recipe("logs.yml", keys + Keys{{"output_dir", at("logs")}}), {"--resume", "none"}).exit, 0);
  EXPECT_TRUE(fs::exists(at("logs/earlier-1/runs")));
  for (const char* name : {"runs", "wandb", "mlruns"})
    EXPECT_FALSE(fs::exists(at(std::string("logs/") + name))) << name;
}

TEST_F(Runs, OfASweepTakeKeysFromTheCommandLine) {
  const std::string r = recipe("r.yml", tiny_lora() + Keys{{"val_set_size", "0"}, {"eval_steps", ""}});
  write("grid.yml", "seed: [1, 2]\n");
  auto sweep = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"sweep", r, "--grid", at("grid.yml"), "--output", at("sweep")};
    words.insert(words.end(), more.begin(), more.end());
    return dml(words);
  };
  auto steps_in = [&](const std::string& folder) {
    return std::ranges::count_if(json_lines(at(folder) + "/metrics.jsonl"),
                                 [](const Json& line) { return !line.contains("event"); });
  };
  Ended first = sweep({"--max_steps", "1"});
  ASSERT_EQ(first.exit, 0) << first.err;
  EXPECT_EQ(steps_in("sweep/run-02"), 1);
  EXPECT_EQ(sweep({"--max_steps", "1"}).out, first.out);
  EXPECT_FALSE(fs::exists(at("sweep/run-02/earlier-1"))) << "finished runs are not repeated";
  ASSERT_EQ(sweep({"--max_steps=2"}).exit, 0);
  EXPECT_EQ(steps_in("sweep/run-02"), 2);
  recipe("r.yml", tiny_lora() + Keys{{"val_set_size", "0"}, {"eval_steps", ""}, {"learning_rate", "3e-3"}});
  ASSERT_EQ(sweep({"--max_steps=2"}).exit, 0);
  EXPECT_THAT(read_file(at("sweep/run-02/recipe.resolved.yml")), HasSubstr("learning_rate: 0.003")) << "it changed";
  write("rows.jsonl", read_file(at("rows.jsonl")) + read_file(at("rows.jsonl")));
  const Ended again = sweep({"--max_steps=2"});
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("finished before"))) << "the data changed";
  expect_refused(sweep({"--seed", "3"}), 2, {"'seed' is set by the grid and by --seed"});
  expect_refused(sweep({"--sede", "3"}), 2, {"sede", "seed"});
}

TEST_F(Runs, SaveWhenTheirTriggerFileAppears) {
  fs::create_directory(at("out"));
  write("out/axolotl_checkpoint.save", "");
  Ended e = train(1, recipe("r.yml", tiny_lora() + Keys{{"save_strategy", "no"},
                                                        {"dynamic_checkpoint", "{enabled: true, check_interval: 3}"}}));
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_TRUE(fs::exists(at("out/checkpoint-3/manifest.json"))) << e.err;
  EXPECT_FALSE(fs::exists(at("out/checkpoint-6"))) << e.err;
  EXPECT_FALSE(fs::exists(at("out/axolotl_checkpoint.save")));
}

TEST_F(Runs, ReportTheLossInTheirLastLine) {
  Ended good = train(1, recipe("good.yml", tiny_lora() + Keys{{"learning_rate", "1e-2"}}));
  ASSERT_EQ(good.exit, 0) << good.err;
  EXPECT_THAT(last_line(good.err), AllOf(HasSubstr("validation loss"), HasSubstr(" → "), Not(HasSubstr("worse"))));
  Keys wild{{"learning_rate", "3"}, {"lr_scheduler", "constant"}, {"max_grad_norm", "0"}, {"output_dir", at("bad")}};
  Ended bad = train(1, recipe("bad.yml", tiny_lora() + wild));
  ASSERT_EQ(bad.exit, 0) << bad.err;
  EXPECT_THAT(last_line(bad.err), AllOf(HasSubstr("ended worse than it began"), HasSubstr("validation loss")));
  // The best value of another metric is not the lowest loss.
  wild = wild + Keys{{"eval_metrics", "[bits_per_byte]"},
                     {"metric_for_best_model", "eval_bits_per_byte"},
                     {"output_dir", at("bits")}};
  bad = train(1, recipe("bits.yml", tiny_lora() + wild));
  ASSERT_EQ(bad.exit, 0) << bad.err;
  EXPECT_THAT(last_line(bad.err), AllOf(HasSubstr("ended worse"), Not(HasSubstr("lowest"))));
}

TEST_F(Runs, PrintAsMuchAsRequested) {
  std::string r = recipe("r.yml", tiny_lora());
  Ended plain = train(1, r);
  ASSERT_EQ(plain.exit, 0) << plain.err;
  const std::string header = plain.err.substr(0, plain.err.find("step "));
  EXPECT_LE(std::ranges::count(header, '\n'), 8) << header;
  Ended quiet = train(1, r, {"--quiet"});
  EXPECT_EQ(quiet.exit, 0);
  EXPECT_EQ(quiet.err, "");
  Ended verbose = dml({"--verbose", "train", r, "--progress", "none"});
  EXPECT_GT(std::ranges::count(verbose.err, '\n'), std::ranges::count(header, '\n'));
  EXPECT_THAT(verbose.err, AllOf(HasSubstr("validation loss"), Not(HasSubstr("tok/s"))));
  expect_refused(dml({"train", r, "--progress", "fancy"}), 2,
                 {"--progress: there is no mode 'fancy'; choose from auto, bar, plain, none"});
  EXPECT_EQ(dml({"-V"}).out, dml({"version"}).out);
  EXPECT_EQ(dml({"-V"}).exit, 0);
}

}  // namespace
}  // namespace dml::e2e
