// Puts a CausalLm together from its spec, the tensors of a model directory and what is to be trained.
//
// Frozen matrices stay where they are (a view into the mapped file); trained ones, norms and biases are copied to
// float32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/weight.h"
#include "model/adapter_plan.h"
#include "model/causal_lm.h"
#include "model/weight_names.h"

namespace dml {

/// A tensor as it is stored: a view, alive as long as the model.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  const float* scales = nullptr;  // of quantised types, or
  const std::uint8_t* scale_codes = nullptr;
  const float* scale_blocks = nullptr;
  bool bf16_values = false;  // nf4: rounded to bf16
  bool transposed = false;   // data and scales are (out, in), although the file has, and shape says, (in, out)

  kernels::Weight as_matrix(std::int64_t rows, std::int64_t cols) const {
    return {dtype, rows, cols, data, scales, scale_codes, scale_blocks, 0, bf16_values};
  }
};

/// Finds a tensor by its name in the files; nothing when there is none.
using TensorSource = std::function<std::optional<StoredTensor>(const std::string& name)>;

/// Rows [first, last) of a tensor, as its file has it.
struct RowRange {
  std::int64_t first = 0, last = 0;
};

/// How trained values of the base's own tensors lie in memory.
struct TrainedValues {
  bool in_parts = false;  // not allocated: ParameterStore::start gives them to a strategy that shards them
  bool bf16 = false;      // ParameterStore::bf16_values
};

/// Which parameters get gradients.
struct Training {
  bool full = false;  // the base's own tensors …
  std::function<std::optional<RowRange>(const std::string& name, std::int64_t rows)> unfrozen =
      {};                                     // … these of them; unset: all
  std::optional<AdapterConfig> adapter = {};  // or an adapter, and what it saves whole
  std::uint64_t seed = 0;                     // of everything that starts at random
  TrainedValues values = {};                  // of full training
};

/// `source` empty: random weights (normal with init_range; norms as ones, biases as zeros).
/// Throws UserError naming every tensor that is missing or of another shape.
std::unique_ptr<CausalLm> build_model(const ModelSpec& spec, const TensorSource& source, const Training& training,
                                      const std::string& source_name);

/// Overwrites trained parameters from tensors of the same names (an adapter, a checkpoint). UserError listing what is
/// missing or has another shape; `strict` false leaves missing ones as they are.
void load_parameters(ParameterStore& parameters, const TensorSource& source, const std::string& source_name);

}  // namespace dml
