// Reads the goldens of tools/make_golden.py (tests/golden/README.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/adapter_io.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_files.h"
#include "core/json.h"
#include "kernels/optimizer_step.h"
#include "model/build.h"
#include "nn/hooks.h"

namespace dml {

inline std::string golden_path(const std::string& name) {
  return std::string(DML_SOURCE_DIR) + "/tests/golden/" + name;
}

/// The folders of tests/golden that hold a model, a batch and what to expect of them.
inline std::vector<std::string> golden_families() {
  std::vector<std::string> out;
  for (auto& entry : std::filesystem::directory_iterator(golden_path("")))
    if (std::filesystem::exists(entry.path() / "full/gradients.safetensors")) out.push_back(entry.path().filename());
  std::ranges::sort(out);
  return out;
}

/// Without mixtures of experts, where a little noise may send a token to another expert.
inline std::vector<std::string> dense_golden_families() {
  std::vector<std::string> out;
  for (const std::string& family : golden_families())
    if (!read_json(golden_path(family) + "/model/config.json").contains("num_experts_per_tok")) out.push_back(family);
  return out;
}

struct GoldenBatch {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts;

  explicit GoldenBatch(const std::string& path) {
    Json j = read_json(path);
    tokens = j["tokens"].get<std::vector<Token>>();
    labels = j["labels"].get<std::vector<Token>>();
    positions = j["positions"].get<std::vector<std::int32_t>>();
    starts = j["starts"].get<std::vector<std::int32_t>>();
  }
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
  std::int64_t longest() const {
    std::int64_t n = 0;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) n = std::max<std::int64_t>(n, starts[i + 1] - starts[i]);
    return n;
  }
};

inline TensorSource golden_source(std::shared_ptr<ModelFiles> files) {
  return [files](const std::string& name) -> std::optional<StoredTensor> {
    const TensorView* t = files->find(name);
    if (!t) return std::nullopt;
    return StoredTensor{t->dtype, {t->shape.begin(), t->shape.end()}, t->bytes.data()};
  };
}

/// A golden model, trainable in full or through the golden adapter, with gradient buffers bound and working memory
/// taken.
struct GoldenModel {
  std::unique_ptr<CausalLm> model;
  std::vector<std::vector<float>> gradients;
  std::vector<float> score;

  GoldenModel(const std::string& family, bool lora, const GoldenBatch& batch, const std::string& config_dir = "",
              double dropout = 0, TensorSource source = {}, HeadKind head = HeadKind::causal_lm,
              const TrainedValues& values = {}) {
    std::string directory = golden_path(family) + "/model";
    ModelSpec spec = read_model_spec(config_dir.empty() ? directory : config_dir);
    if (head != HeadKind::causal_lm) spec = spec.with_head(head, 1);
    auto files = std::make_shared<ModelFiles>(directory);
    Training training;
    training.full = !lora;
    training.values = values;
    std::optional<Adapter> adapter;
    if (lora) {
      adapter = read_adapter(golden_path(family) + "/lora", spec);
      adapter->config.dropout = dropout;
      training.adapter = adapter->config;
    }
    if (!source) source = golden_source(files);
    if (head != HeadKind::causal_lm) {  // score.weight is sin(1), sin(2), …
      score.resize(static_cast<std::size_t>(spec.hidden));
      for (std::size_t i = 0; i < score.size(); ++i)
        score[i] = static_cast<float>(std::sin(static_cast<double>(i + 1)));
      source = [this, files = source](const std::string& name) -> std::optional<StoredTensor> {
        if (name != "score.weight") return files(name);
        return StoredTensor{DType::f32, {1, static_cast<std::int64_t>(score.size())}, score.data()};
      };
    }
    model = build_model(spec, source, training, directory);
    model->backing = files;
    if (adapter)
      load_parameters(
          model->parameters,
          [&](const std::string& name) -> std::optional<StoredTensor> {
            for (auto& t : adapter->tensors)
              if (t.key == name) return StoredTensor{DType::f32, t.shape, adapter->values.at(name).data()};
            return std::nullopt;
          },
          family);
    model->set_length(batch.longest());
    for (Unit& u : model->parameters.units()) {
      gradients.emplace_back(static_cast<std::size_t>(u.size), 0.f);
      u.grad = gradients.back().data();
    }
    model->reserve(model->measure(shape(batch), true));
  }

  static CausalLm::Shape shape(const GoldenBatch& batch) {
    return {batch.view().size(), batch.view().trained(), batch.view().documents()};
  }
  void zero() {
    for (auto& g : gradients) std::fill(g.begin(), g.end(), 0.f);
  }
};

/// Ten steps of AdamW as the goldens take them, with the model's gradients bound and working memory taken: a weight
/// decay of 0.01 where the parameter wants one, its own scale of the learning rate. Returns the mean losses that the
/// steps saw.
inline std::vector<double> ten_adamw_steps(CausalLm& model, const GoldenBatch& batch, double learning_rate) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
  std::vector<std::vector<float>> first, second;
  for (const Unit& u : model.parameters.units())
    for (auto* block : {&first, &second}) block->emplace_back(static_cast<std::size_t>(u.size), 0.f);
  const auto trained = static_cast<double>(batch.view().trained());
  UnitHooks no_hooks;
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    for (Unit& u : model.parameters.units()) std::fill_n(u.grad, u.size, 0.f);
    losses.push_back(model.train(batch.view(), {}, no_hooks) / trained);
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Unit& u = model.parameters.units()[i];
      for (const Parameter& p : u.parameters) {
        auto slice = [&](float* block) {
          return std::span<float>(block + p.offset, static_cast<std::size_t>(p.size()));
        };
        const kernels::AdamWStep s{.learning_rate = static_cast<float>(learning_rate * p.learning_rate_scale),
                                   .beta1 = static_cast<float>(kBeta1),
                                   .beta2 = static_cast<float>(kBeta2),
                                   .epsilon = 1e-8f,
                                   .weight_decay = p.decay ? 0.01f : 0.f,
                                   .bias1 = static_cast<float>(1 - std::pow(kBeta1, step + 1)),
                                   .bias2 = static_cast<float>(1 - std::pow(kBeta2, step + 1)),
                                   .gradient_scale = static_cast<float>(1 / trained)};
        kernels::adamw(s, slice(u.value.floats()), slice(u.grad), slice(first[i].data()), slice(second[i].data()));
      }
    }
  }
  return losses;
}

}  // namespace dml
