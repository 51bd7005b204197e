// Adapters that PEFT 0.21 wrote (../shared/data/peft-real): read, trained on, and written again key by key. Where they
// are not at hand the goldens of adapters_test.cpp stand for them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "assembly/base_model.h"
#include "assembly/model_output.h"
#include "assembly/vocabulary.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "model/golden.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

const std::string kPeftFolder = DML_SOURCE_DIR "/../shared/data/peft-real";

std::vector<std::string> kinds() {
  std::vector<std::string> out;
  std::error_code ignored;
  for (auto& entry : fs::directory_iterator(kPeftFolder, ignored)) out.push_back(entry.path().filename().string());
  std::ranges::sort(out);
  return out;
}

// Name → shape and values.
std::map<std::string, std::pair<std::string, std::vector<float>>> tensors_of(const std::string& directory) {
  std::map<std::string, std::pair<std::string, std::vector<float>>> out;
  const SafetensorsFile file(directory + "/adapter_model.safetensors");
  for (auto& t : file.tensors()) out[std::string(t.name)] = {shape_text(t.shape), t.floats(directory)};
  return out;
}

// Lists are sets to PEFT.
Json in_order(Json value) {
  if (value.is_array()) std::sort(value.begin(), value.end());
  return value;
}

struct Golden {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};
  Json values;

  explicit Golden(const std::string& path) : values(read_json(path)) {
    for (std::size_t row = 0; row < values["ids"].size(); ++row) {
      const auto ids = values["ids"][row].get<std::vector<Token>>(),
                 wanted = values["labels"][row].get<std::vector<Token>>();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        tokens.push_back(ids[i]);
        labels.push_back(i + 1 < ids.size() ? wanted[i + 1] : kIgnore);
        positions.push_back(static_cast<std::int32_t>(i));
      }
      starts.push_back(static_cast<std::int32_t>(tokens.size()));
    }
  }
  PackedBatch batch() const { return {tokens, labels, positions, starts}; }
};

TEST(PeftReal, IsReadTrainedAndWrittenAsByPeft) {
  if (kinds().empty()) GTEST_SKIP() << "no ../shared/data";
  std::set<std::string> refused;
  for (const std::string& kind : kinds()) {
    SCOPED_TRACE(kind);
    const std::string directory = kPeftFolder + "/" + kind, adapter_directory = directory + "/adapter";
    const Golden golden(directory + "/golden.json");
    ModelSection section;
    section.base_model = directory + "/base";
    AdapterSection adapter;
    adapter.adapter = AdapterKind::lora;
    adapter.lora_model_dir = adapter_directory;
    BaseModel base;
    TrainableModel trained;
    try {
      base = open_base_model(section);
      resize_vocabulary(base, base.spec.vocab, section, adapter, 1);
      trained = make_trainable_model(base, section, adapter, 1);
    } catch (const UserError& e) {
      refused.insert(kind);
      continue;
    }
    CausalLm& model = *trained.model;
    std::vector<std::vector<float>> gradients;
    for (Unit& u : model.parameters.units()) {
      gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = gradients.back().data();
    }
    const PackedBatch batch = golden.batch();
    model.set_length(64);
    model.reserve(model.measure({batch.size(), batch.trained(), batch.documents()}, true));
    UnitHooks no_hooks;
    const auto count = static_cast<double>(batch.trained());
    EXPECT_NEAR(model.train(batch, {}, no_hooks) / count, golden.values["loss"].get<double>(), 1e-5);
    std::map<std::string, double> norms;
    double all = 0;
    for (const Unit& u : model.parameters.units())
      for (const Parameter& p : u.parameters) {
        double sum = 0;
        for (std::int64_t i = 0; i < p.size(); ++i)
          sum += std::pow(static_cast<double>(u.grad[p.offset + i]) / count, 2);
        norms[p.name] = std::sqrt(sum);
        all += sum;
      }
    EXPECT_NEAR(std::sqrt(all), golden.values["grad_norm"].get<double>(), 1e-4);
    std::map<std::string, double> wanted;
    for (auto& [name, norm] : golden.values["gradients"].items()) {
      std::string key = name;  // PEFT's names inside a model
      for (const char* part : {".modules_to_save.default", ".default"})
        if (auto at = key.find(part); at != key.npos) key.erase(at, std::string(part).size());
      if (key.ends_with("lora_magnitude_vector.weight")) key.resize(key.size() - 7);
      wanted[key] = norm;
    }
    EXPECT_EQ(norms.size(), wanted.size());
    for (auto& [name, norm] : wanted) EXPECT_NEAR(norms[name], norm, 1e-4) << name;

    // Nothing was updated: the file is PEFT's, value by value, the frozen ends of a resized vocabulary, too.
    const testing_tools::TemporaryFolder folder;
    const std::string place = folder.path();
    write_adapter_directory(place, *trained.adapter, model);
    const auto given = tensors_of(adapter_directory), written = tensors_of(place);
    for (auto& [name, tensor] : given) {
      ASSERT_TRUE(written.contains(name)) << name;
      EXPECT_EQ(written.at(name).first, tensor.first) << name;
      EXPECT_EQ(written.at(name).second, tensor.second) << name;
    }
    for (auto& [name, tensor] : written) EXPECT_TRUE(given.contains(name)) << name;
    const Json before = read_json(adapter_directory + "/adapter_config.json"),
               now = read_json(place + "/adapter_config.json");
    for (auto& [key, value] : before.items())
      if (key != "target_parameters" || !value.empty()) {  // PEFT writes [] or null as it was asked
        EXPECT_EQ(dump(in_order(now.value(key, Json("absent")))), dump(in_order(value))) << key;
      }
    EXPECT_EQ(now.size(), before.size());

    // Inference and a merge compute what training saw.
    auto answers = make_inference_model(base, std::nullopt, {place});
    answers->set_length(64);
    answers->reserve(answers->measure({batch.size(), batch.trained(), batch.documents()}, false));
    const double loss = answers->evaluate(batch, no_hooks) / count;
    EXPECT_NEAR(loss, golden.values["loss"].get<double>(), 1e-5);
    if (trained.adapter->lora_bias && !base.spec.bias.qkv) continue;  // no bias to merge it into
    const testing_tools::TemporaryFolder merged;
    write_merged_directory(merged.path(), base, *answers, DType::f32);
    ModelSection whole;
    whole.base_model = merged.path();
    auto again = make_inference_model(open_base_model(whole), std::nullopt);
    again->set_length(64);
    again->reserve(again->measure({batch.size(), batch.trained(), batch.documents()}, false));
    EXPECT_NEAR(again->evaluate(batch, no_hooks) / count, loss, 1e-5);
  }
  for (const std::string& kind : refused) EXPECT_TRUE(kind.starts_with("replicated")) << kind;
}

}  // namespace
}  // namespace dml
