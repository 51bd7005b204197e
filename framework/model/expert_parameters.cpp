#include "model/expert_parameters.h"

#include "core/error.h"
#include "model/weight_names.h"

namespace dml {

std::vector<ExpertParameter> expert_parameters(const ModelSpec& spec) {
  std::vector<ExpertParameter> out;
  const MoeSpec& m = spec.moe;
  for (std::int64_t l = 0; l < spec.layers; ++l) {
    if (!spec.sparse(l)) continue;
    const std::string layer = fmt::format("model.layers.{}.", l);
    const bool interleaved = m.layout == ExpertLayout::transposed || m.layout == ExpertLayout::mxfp4;
    out.push_back({layer + m.naming->target_gate_up, l, m.experts, 2 * m.ffn, spec.hidden, false, interleaved});
    out.push_back({layer + m.naming->target_down, l, m.experts, spec.hidden, m.ffn, true, false});
  }
  return out;
}

namespace {

// Calls copy(index in PEFT's B, index in this model's B).
template <class F>
void each_place(const ExpertParameter& p, std::int64_t rank, F copy) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int64_t own = p.interleaved ? row % 2 * (p.rows / 2) + row / 2 : row;
    for (std::int64_t e = 0; e < p.experts; ++e)
      for (std::int64_t j = 0; j < rank; ++j)
        copy(static_cast<std::size_t>((row * rank + j) * p.experts + e),
             static_cast<std::size_t>((e * p.rows + own) * rank + j));
  }
}

}  // namespace

std::vector<float> expert_rows(const ExpertParameter& p, std::int64_t rank, std::span<const float> columns) {
  std::vector<float> out(columns.size());
  each_place(p, rank, [&](std::size_t file, std::size_t own) { out[own] = columns[file]; });
  return out;
}

std::vector<float> expert_columns(const ExpertParameter& p, std::int64_t rank, std::span<const float> rows) {
  std::vector<float> out(rows.size());
  each_place(p, rank, [&](std::size_t file, std::size_t own) { out[file] = rows[own]; });
  return out;
}

}  // namespace dml
