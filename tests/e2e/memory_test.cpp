// The total of the memory plan compared with the peak memory of the process, on models large enough for it to matter.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

constexpr double kMb = 1024 * 1024;

class Memory : public Workshop {
 protected:
  // Rows of 700 tokens.
  Memory() {
    std::string rows;
    for (int i = 0, id = 0; i < 24; ++i) {
      Json row;
      for (int t = 0; t < 700; ++t, id = (id + 11) % 2048) {
        row["input_ids"].push_back(id);
        row["labels"].push_back(id);
        row["attention_mask"].push_back(1);
      }
      rows += row.dump() + "\n";
    }
    write("long.jsonl", rows);
  }

  static Keys model() {
    return {{"tokenizer_config", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"},
            {"model_config",
             "{model_type: llama, vocab_size: 8000, hidden_size: 384, intermediate_size: 1024, num_hidden_layers: 4, "
             "num_attention_heads: 6, num_key_value_heads: 2, "
             "max_position_embeddings: 1024, rms_norm_eps: 1.0e-5, rope_theta: 10000.0, tie_word_embeddings: true, "
             "bos_token_id: 1, eos_token_id: 2}"}};
  }

  void expect_planned(const std::string& name, const Keys& changes) {
    Keys keys = Keys{{"datasets", fmt::format("[{{path: {}, ds_type: json, type: }}]", at("long.jsonl"))},
                     {"val_set_size", "2"},
                     {"sequence_len", "1024"},
                     {"batch_size", "2"},
                     {"max_steps", "1"},  // nothing is allocated later
                     {"eval_steps", "1"},
                     {"save_strategy", "no"},
                     {"threads", "2"},
                     {"output_dir", at(name)}} +
                changes;
    std::string r = recipe(name + ".yml", keys);
    Ended plan = dml({"plan", r});
    ASSERT_EQ(plan.exit, 0) << plan.err;
    double planned = 0;
    std::string last = plan.out.substr(plan.out.rfind("total"));
    char unit[8] = "";
    ASSERT_EQ(std::sscanf(last.c_str(), "total %lf %7s", &planned, unit), 2) << last;
    planned *= std::string(unit) == "GB" ? 1024 : 1;
    Ended e = train(1, r);
    ASSERT_EQ(e.exit, 0) << e.err;
    double real = static_cast<double>(e.peak) / kMb;
    EXPECT_NEAR(planned / real, 1, 0.1) << name << ": planned " << planned << " MB, real " << real << " MB\n"
                                        << plan.out;
    RecordProperty(name, fmt::format("planned {:.0f} MB, real {:.0f} MB", planned, real));
    fmt::print("{:<28} planned {:>6.0f} MB, real {:>6.0f} MB ({:+.1f} %)\n", name, planned, real,
               100 * (planned / real - 1));
  }
};

TEST_F(Memory, MatchesThePlan) {
  expect_planned("full", model());
  expect_planned("full-checkpointing", model() + Keys{{"gradient_checkpointing", "true"}});
  expect_planned("full-in-bf16", model() + Keys{{"bf16_weights", "kahan"}});
  expect_planned("full-packed-accumulated",
                 model() + Keys{{"sample_packing", "true"}, {"sequence_len", "1400"}, {"batch_size", "4"}});
  Keys lora = tiny_lora() + Keys{{"base_model", at("full")}, {"lora_r", "16"}, {"lora_alpha", "16"}};
  expect_planned("lora", lora);
  expect_planned("lora-checkpointing", lora + Keys{{"gradient_checkpointing", "true"}});
  expect_planned("lora-bf16", lora + Keys{{"frozen_storage", "bf16"}});
  expect_planned("dora", lora + Keys{{"peft_use_dora", "true"}, {"lora_dropout", "0"}});
  expect_planned("full-from-files", Keys{{"base_model", at("full")}});
}

// Values in two bytes, and Kahan's compensation: two bytes beside the eight of AdamW's moments.
TEST_F(Memory, OfWeightsInBf16IsHalf) {
  auto plan_of = [&](const char* rounding) {
    const Ended plan =
        dml({"plan", recipe("r.yml", model() + Keys{{"datasets", fmt::format("[{{path: {}, ds_type: json, "
                                                                             "type: }}]",
                                                                             at("long.jsonl"))},
                                                    {"sequence_len", "1024"},
                                                    {"bf16_weights", rounding}})});
    EXPECT_EQ(plan.exit, 0) << plan.err;
    return plan.out;
  };
  const std::map<std::string, std::string> plans{
      {"false", plan_of("false")}, {"kahan", plan_of("kahan")}, {"stochastic", plan_of("stochastic")}};
  auto planned = [&](const char* rounding, const std::string& row) {
    const std::string& text = plans.at(rounding);
    const std::size_t at = text.rfind("\n" + row + " ");
    double megabytes = 0;
    EXPECT_EQ(std::sscanf(text.c_str() + at + 1 + row.size(), " %lf MB", &megabytes), 1) << text;
    return megabytes;
  };
  const double values = planned("false", "trained weights"), state = planned("false", "optimizer state");
  EXPECT_GT(values, 30);
  EXPECT_NEAR(planned("kahan", "trained weights"), values / 2, 1);
  EXPECT_NEAR(planned("stochastic", "trained weights"), values / 2, 1);
  // A copy of one slice at a time in float32 counts as state.
  const double copy = 8000 * 384 * 4 / kMb;
  EXPECT_NEAR(planned("kahan", "optimizer state"), state * 10 / 8 + copy, 2);
  EXPECT_NEAR(planned("stochastic", "optimizer state"), state + copy, 2);
}

// A forward pass alone says little of a small model's step.
TEST_F(Memory, AndTimeOfASmallModelArePlannedFromRealStepsThatLeaveNothingBehind) {
  std::string r = recipe("small.yml", tiny_model() + Keys{{"output_dir", at("small")}});
  Ended plan = dml({"plan", r});
  EXPECT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, testing::HasSubstr("10 steps take about"));
  EXPECT_EQ(names_left("small"), at("small.yml") + "\n");
  EXPECT_EQ(dml({"plan", r}, {.environment = {"DML_FAULT=rank=0,point=step,kind=exit3,step=1"}}).exit, 3);
  EXPECT_EQ(dml({"plan", r}, {.environment = {"DML_FAULT=rank=0,point=evaluation,kind=exit3"}}).exit, 3);
}

// Each checkpoint holds the tokenizer's 32 kB beside adapter and state.
TEST_F(Memory, OfADiskIsPlannedWithTheTokenizer) {
  const std::string r =
      recipe("lora.yml", tiny_lora() + Keys{{"output_dir", at("lora")}, {"max_steps", "2"}, {"save_steps", "2"}});
  const Ended plan = dml({"plan", r});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  double planned = 0;
  char unit = 0;
  const std::string line = plan.out.substr(plan.out.find("a checkpoint, on disk"));
  ASSERT_EQ(std::sscanf(line.c_str(), "a checkpoint, on disk %lf %cB", &planned, &unit), 2) << plan.out;
  ASSERT_EQ(unit, 'k') << line;
  ASSERT_EQ(train(1, r).exit, 0);
  double bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(at("lora/checkpoint-2")))
    bytes += static_cast<double>(file.file_size());
  EXPECT_NEAR(planned * 1000, bytes, 30'000);  // configs, the README and headers
}

TEST_F(Memory, ThatIsMissingEndsARunBeforeAnyIsAllocated) {
  Keys keys{{"datasets", fmt::format("[{{path: {}, ds_type: json, type: }}]", at("long.jsonl"))},
            {"sequence_len", "1024"}};
  Keys huge = model() + keys;
  huge["model_config"] = huge["model_config"].substr(0, huge["model_config"].size() - 1) + ", head_dim: 128}";
  for (auto [from, to] :
       {std::pair{"hidden_size: 384", "hidden_size: 32768"}, {"num_hidden_layers: 4", "num_hidden_layers: 200"}})
    huge["model_config"].replace(huge["model_config"].find(from), std::string(from).size(), to);
  Ended full = train(1, recipe("huge.yml", huge));
  EXPECT_EQ(full.exit, 2);
  EXPECT_THAT(full.err, testing::HasSubstr("full fine-tuning of"));
  EXPECT_THAT(full.err, testing::HasSubstr("adapter: lora or qlora"));

  std::string r = recipe("wide.yml", tiny_lora() + keys + Keys{{"micro_batch_size", "1"}, {"batch_size", "1"}});
  Ended plan = dml({"plan", r});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  // No more than 4096 are tried; how many fit depends on the machine.
  const std::string sizes = plan.out.substr(plan.out.rfind("micro_batch_size"));
  long fits = 0;
  if (std::sscanf(sizes.c_str(), "micro_batch_size up to %ld fits", &fits) == 1) {
    EXPECT_GT(fits, 1) << plan.out;
    EXPECT_LT(fits, 4096) << plan.out;
  } else {
    EXPECT_THAT(sizes, testing::StartsWith("micro_batch_size of 4096 or more fits in the "));
  }
  EXPECT_THAT(plan.out, testing::ContainsRegex("[0-9]+ steps take about [0-9:]+"));
  alpaca("rows.jsonl", 8);
  plan = dml({"plan", recipe("cap.yml", tiny_lora() + Keys{{"micro_batch_size", "5000"}, {"batch_size", "5000"}})});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, testing::HasSubstr("micro_batch_size of 5000 or more fits in the "));
}

}  // namespace
}  // namespace dml::e2e
