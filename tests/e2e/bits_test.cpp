// Bits depend neither on threads and ranks nor on where a run was stopped.
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace fs = std::filesystem;
namespace {

struct Outcome {
  std::map<std::string, std::string> files;
  std::string numbers;
};

class Bits : public Workshop {
 protected:
  Outcome outcome(const std::string& folder) { return {results_in(folder), numbers_of(folder + "/metrics.jsonl")}; }

  Outcome trained(const std::string& name, const Keys& keys, int ranks, int threads,
                  const std::string& distribution = "") {
    std::string out = at(name);
    Ended e = train(ranks, recipe(name + ".yml", keys + Keys{{"output_dir", out},
                                                             {"threads", std::to_string(threads)},
                                                             {"distribution", distribution}}));
    EXPECT_EQ(e.exit, 0) << e.err;
    return outcome(out);
  }

  static void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
    EXPECT_EQ(a.numbers, b.numbers) << what;
    ASSERT_FALSE(a.files.empty()) << what;
    ASSERT_EQ(a.files.size(), b.files.size()) << what;
    for (auto& [name, bytes] : a.files)
      EXPECT_TRUE(b.files.contains(name) && b.files.at(name) == bytes) << what << ": " << name << " differs";
  }

  void do_not_depend_on_threads_and_ranks(const Keys& keys) {
    Outcome one = trained("one", keys, 1, 1);
    EXPECT_EQ(json_lines(at("one/metrics.jsonl")).size(), 13u);  // ten steps, evaluations before, at 5 and at 10
    for (int threads : {2, 3, 4})
      expect_same(one, trained("threads", keys + Keys{{"dataset_prepared_path", at("p")}}, 1, threads),
                  std::to_string(threads) + " threads"),
          fs::remove_all(at("threads"));
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
    for (int ranks : {2, 3, 4})
      expect_same(one, trained("ranks", keys, ranks, 1), std::to_string(ranks) + " ranks"), fs::remove_all(at("ranks"));
    expect_same(one, trained("both", keys, 2, 2), "2 ranks of 2 threads");
    for (const char* distribution : {"zero1", "zero2", "zero3"}) {
      if (e2e::dml({"list", "distributions"}).out.find(distribution) == std::string::npos) continue;
      for (int ranks : {2, 3})
        expect_same(one, trained(fmt::format("{}-{}", distribution, ranks), keys, ranks, 1, distribution),
                    fmt::format("{} on {} ranks", distribution, ranks));
    }
  }

  // Every checkpoint of an uninterrupted run is resumed in a folder of its own.
  void survive_a_stop_after_every_step(const Keys& keys, int whole_ranks, const std::string& distribution = "") {
    Keys saving = keys + Keys{{"save_steps", "1"}, {"save_total_limit", "20"}, {"distribution", distribution}};
    std::string out = at("whole");
    Ended e = train(whole_ranks, recipe("whole.yml", saving + Keys{{"output_dir", out}}));
    ASSERT_EQ(e.exit, 0) << e.err;
    Outcome whole = outcome(out);
    for (int k = 1; k < 10; ++k) {
      std::string folder = at("from-" + std::to_string(k));
      fs::create_directory(folder);
      fs::copy_file(out + "/metrics.jsonl", folder + "/metrics.jsonl");
      int ranks = !has_mpirun() ? 1 : k % 3 == 0 ? 2 : k % 3 == 1 ? 1 : whole_ranks == 1 ? 3 : 1;
      Ended resumed = train(
          ranks,
          recipe("resumed.yml", keys + Keys{{"output_dir", folder}, {"distribution", ranks > 1 ? distribution : ""}}),
          {"--resume", fmt::format("{}/checkpoint-{}", out, k)});
      ASSERT_EQ(resumed.exit, 0) << "from step " << k << ": " << resumed.err;
      expect_same(whole, outcome(folder), fmt::format("from step {} on {} ranks", k, ranks));
    }
  }
};

// Restarts before the fourth, seventh and tenth step: three checkpoints of ten are made right before one.
Keys tiny_relora() {
  return tiny_lora() + Keys{{"relora", "true"},
                            {"relora_prune_ratio", "0.8"},
                            {"jagged_restart_steps", "3"},
                            {"jagged_restart_warmup_steps", "2"},
                            {"lora_modules_to_save", "[embed_tokens]"}};
}

TEST_F(Bits, OfReloraDoNotDependOnThreadsAndRanks) { do_not_depend_on_threads_and_ranks(tiny_relora()); }
TEST_F(Bits, OfReloraSurviveAStopAfterEveryStep) { survive_a_stop_after_every_step(tiny_relora(), 1); }
TEST_F(Bits, OfShardedReloraSurviveAStopAfterEveryStep) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  survive_a_stop_after_every_step(tiny_relora() + Keys{{"relora_prune_method", "random"}, {"peft_use_dora", "true"}}, 2,
                                  "zero2");
}
TEST_F(Bits, OfAFullRunDoNotDependOnThreadsAndRanks) { do_not_depend_on_threads_and_ranks(tiny_model()); }
TEST_F(Bits, OfAnAdapterWithDropoutDoNotDependOnThreadsAndRanks) { do_not_depend_on_threads_and_ranks(tiny_lora()); }
TEST_F(Bits, OfPackedRowsDoNotDependOnThreadsAndRanks) {
  alpaca("rows.jsonl", 160);
  do_not_depend_on_threads_and_ranks(
      tiny_lora() + Keys{{"sample_packing", "true"}, {"max_steps", "10"}, {"gradient_checkpointing", "true"}});
}
TEST_F(Bits, OfStateAndActivationsInFewBitsDoNotDependOnThreadsAndRanks) {
  do_not_depend_on_threads_and_ranks(tiny_model() + Keys{{"optimizer", "adamw_8bit"}, {"activation_storage", "bf16"}});
}
// Of full runs, and of adapters with dropout and without; trained, recomputed, stopped and resumed.
TEST_F(Bits, DoNotDependOnPackedCopiesOfWeights) {
  const Keys adapter = tiny_lora() + Keys{{"lora_dropout", "0"}, {"gradient_checkpointing", "true"}};
  const Keys kinds[] = {tiny_model(), tiny_lora(), adapter,
                        adapter + Keys{{"adapter", "qlora"}, {"peft_use_dora", "true"}}};
  for (const char* precision : {"true", "false"})
    for (const Keys& kind : kinds) {
      const Keys keys = kind + Keys{{"bf16", precision}};
      const Outcome with = trained("with", keys + Keys{{"prepack_weights", "true"}}, 1, 2);
      expect_same(trained("without", keys + Keys{{"prepack_weights", "false"}}, 1, 2), with, precision);
      fs::remove_all(at("with")), fs::remove_all(at("without"));
    }
  survive_a_stop_after_every_step(tiny_lora() + Keys{{"prepack_weights", "true"}}, 1);
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  const Outcome full = trained("full", tiny_model(), 1, 1), lora = trained("lora", adapter, 1, 1);
  const Keys kept{{"prepack_weights", "true"}};
  for (const char* distribution : {"ddp", "zero1", "zero2"})
    expect_same(full, trained(distribution, tiny_model() + kept, 2, 1, distribution), distribution);
  expect_same(lora, trained("zero3", adapter + kept, 2, 1, "zero3"), "zero3");
}
TEST_F(Bits, OfAFullRunSurviveAStopAfterEveryStep) { survive_a_stop_after_every_step(tiny_model(), 1); }
TEST_F(Bits, OfAnAdapterWithDropoutSurviveAStopAfterEveryStep) { survive_a_stop_after_every_step(tiny_lora(), 1); }
TEST_F(Bits, OfAveragedWeightsDoNotDependOnRanksOrStops) {
  const Keys keys = tiny_model() + Keys{{"ema_decay", "0.8"}};
  survive_a_stop_after_every_step(keys, 1);
  const Outcome one = outcome(at("whole")), plain = trained("plain", tiny_model(), 1, 1);
  EXPECT_NE(one.files, plain.files);
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  for (const char* distribution : {"zero1", "zero3"})
    expect_same(one, trained(distribution, keys, 2, 1, distribution), distribution);
}
TEST_F(Bits, OfShardedRunsSurviveAStopAfterEveryStep) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  survive_a_stop_after_every_step(tiny_model(), 2, "zero3");
}
TEST_F(Bits, OfStateInEightBitsSurviveAStopAfterEveryStep) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there";
  survive_a_stop_after_every_step(tiny_model() + Keys{{"optimizer", "adamw_8bit"}}, 2, "zero1");
}
TEST_F(Bits, SurviveAStopByItsOwnClock) {
  Keys keys = tiny_lora() + Keys{{"output_dir", at("out")}};
  ASSERT_EQ(train(1, recipe("r.yml", keys)).exit, 0);
  Outcome whole = outcome(at("out"));
  Ended stopped = train(1, recipe("s.yml", keys + Keys{{"output_dir", at("stopped")}, {"max_time", "0.001"}}));
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_TRUE(file_exists(at("stopped/checkpoint-1/manifest.json")));
  EXPECT_FALSE(file_exists(at("stopped/adapter_model.safetensors")));
  Ended resumed = train(1, recipe("t.yml", keys + Keys{{"output_dir", at("stopped")}}), {"--resume", "auto"});
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  expect_same(whole, outcome(at("stopped")), "stopped after a step");
}

}  // namespace
}  // namespace dml::e2e
