// Builds a CausalLm from its spec, the tensors of a model directory and what is trained.
//
// Frozen matrices are views of the mapped files; trained ones, norms and biases are copied to float32.
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

/// A view of a stored tensor, which must outlive the model.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  const float* scales = nullptr;  // scales of quantized dtypes, or
  const std::uint8_t* scale_codes = nullptr;
  const float* scale_blocks = nullptr;
  bool bf16_values = false;  // nf4: values are rounded to bf16
  bool transposed = false;   // data and scales are (out, in), although `shape` is the file's (in, out)

  kernels::Weight as_matrix(std::int64_t rows, std::int64_t cols) const {
    return {dtype, rows, cols, data, scales, scale_codes, scale_blocks, 0, bf16_values};
  }
};

/// Finds a tensor by its name in the files; unset if there is none.
using TensorSource = std::function<std::optional<StoredTensor>(const std::string& name)>;

/// Rows [first, last) of a tensor in its file's layout.
struct UnfrozenRows {
  std::int64_t first = 0, last = 0;
};

/// How the trained values of the base's tensors are stored.
struct TrainedValues {
  bool in_parts = false;  // not allocated: a strategy that shards them gets them from ParameterStore::start
  bool bf16 = false;      // ParameterStore::bf16_values
};

/// What is trained.
struct Training {
  bool full = false;  // full fine-tuning: the base's tensors …
  std::function<std::optional<UnfrozenRows>(const std::string& name, std::int64_t rows)> unfrozen =
      {};                                     // … of which these rows; unset: all
  std::optional<AdapterConfig> adapter = {};  // an adapter, and what it trains in full
  std::uint64_t seed = 0;                     // of random initial values
  TrainedValues values = {};                  // full fine-tuning only
};

/// With `source` empty, weights are random (normal with init_range; norms one, biases zero). Throws UserError naming
/// every tensor that is missing or has the wrong shape.
std::unique_ptr<CausalLm> build_model(const ModelSpec& spec, const TensorSource& source, const Training& training,
                                      const std::string& source_name);

/// Loads trained parameters from tensors of the same names (an adapter, a checkpoint). Throws UserError naming every
/// tensor that is missing or has the wrong shape.
void load_parameters(ParameterStore& parameters, const TensorSource& source, const std::string& source_name);

}  // namespace dml
