// A golden model that computes the logits after a text by reading it as a whole: slow but simple.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "model/golden.h"

namespace dml {

struct GoldenLogits {
  std::unique_ptr<CausalLm> model;

  /// `config`: a folder with another config.json for the same weights.
  explicit GoldenLogits(const std::string& family, const std::string& config = "") {
    std::string directory = golden_path(family) + "/model";
    auto files = std::make_shared<ModelFiles>(directory);
    model = build_model(read_model_spec(config.empty() ? directory : golden_path(config)), golden_source(files), {},
                        directory);
    model->backing = files;
  }

  std::vector<float> logits(const std::vector<Token>& prefix) {
    auto size = static_cast<std::int64_t>(prefix.size());
    KvCache cache(model->spec.layers, model->spec.kv_heads, model->spec.head_dim, size);
    std::vector<std::int32_t> positions(prefix.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<float> out(static_cast<std::size_t>(model->spec.vocab));
    SequenceRows rows{&cache, 0, size};
    PackedBatch batch{prefix, {}, positions, {}};
    Mat row{out.data(), 1, model->spec.vocab};
    if (model->length() < size) model->set_length(size);
    std::size_t need = model->measure_calls([&] { model->generate(batch, {&rows, 1}, row); });
    if (model->reserved() < need) model->reserve(need);
    model->generate(batch, {&rows, 1}, row);
    return out;
  }
  Token likeliest(const std::vector<Token>& prefix) {
    auto row = logits(prefix);
    return static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin());
  }
};

}  // namespace dml
