// Whole runs against float64 traces (tools/make_trace.py): schedule, accumulation, clipping, decay and every adapter
// kind.
#include <cmath>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

const std::string kTraces = DML_SOURCE_DIR "/tests/golden/traces";

class Traces : public Workshop, public testing::WithParamInterface<const char*> {};

TEST_P(Traces, LossesAndGradientNormsAgreeStepByStep) {
  std::string folder = kTraces + "/" + GetParam();
  Json trace = parse_json(read_file(folder + "/trace.json"), "trace.json");
  const Json &settings = trace["recipe"], &batches = trace["micro_batches"], &log = trace["log"];
  std::size_t micro_batches = log.size() * settings["gradient_accumulation_steps"].get<std::size_t>();
  std::string rows;
  for (std::size_t i = 0; i < micro_batches; ++i) {
    const Json& batch = batches[i % batches.size()];
    for (std::size_t r = 0; r < batch["input_ids"].size(); ++r) {
      Json row;
      for (const char* field : {"input_ids", "attention_mask", "labels"})
        for (std::size_t t = 0; t < batch["input_ids"][r].size(); ++t)
          if (batch["attention_mask"][r][t] == 1) row[field].push_back(batch[field][r][t]);
      rows += row.dump() + "\n";
    }
  }
  Keys keys{{"base_model", kTraces + "/model"},
            {"tokenizer_config", DML_SOURCE_DIR "/datasets/quickstart/tokenizer"},
            {"datasets", fmt::format("[{{path: {}, ds_type: json, type: }}]", write("trace.jsonl", rows))},
            {"curriculum_sampling", "true"},
            {"shuffle_merged_datasets", "false"},
            {"val_set_size", "0"},
            {"eval_steps", ""},
            {"batch_size", ""},
            {"micro_batch_size", "2"}};
  for (auto& [key, value] : settings.items()) keys[key] = value.dump();
  if (std::string init = folder + "/init"; file_exists(init)) {
    Json adapter = parse_json(read_file(init + "/adapter_config.json"), "adapter_config.json");
    keys = keys + Keys{{"adapter", "lora"},
                       {"lora_model_dir", init},
                       {"lora_r", adapter["r"].dump()},
                       {"lora_alpha", adapter["lora_alpha"].dump()},
                       {"lora_target_modules", adapter["target_modules"].dump()},
                       {"peft_use_rslora", adapter["use_rslora"].dump()},
                       {"peft_use_dora", adapter["use_dora"].dump()}};
  }
  Ended e = train(1, recipe("trace.yml", keys));
  ASSERT_EQ(e.exit, 0) << e.err;
  auto steps = json_lines(at("out/metrics.jsonl"));
  ASSERT_EQ(steps.size(), log.size());
  for (std::size_t s = 0; s < log.size(); ++s) {
    auto relative = [&](const char* name) {
      return std::abs(steps[s][name].get<double>() / log[s][name].get<double>() - 1);
    };
    EXPECT_LT(relative("loss"), 1e-5) << "step " << s + 1;
    EXPECT_LT(relative("grad_norm"), 1e-4) << "step " << s + 1;
    EXPECT_LT(relative("lr"), 1e-12) << "step " << s + 1;
    EXPECT_EQ(steps[s]["trained_tokens"], log[s]["learned_tokens"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Float64, Traces,
                         testing::Values("lora-all", "rslora", "dora", "full-accum", "relora", "relora-dora"),
                         [](auto& of) {
                           std::string name(of.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace dml::e2e
