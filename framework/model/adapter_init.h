// Initial values of an adapter's parameters, as in PEFT. Inits computed from the base weight are in low_rank_init.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "nn/linear.h"

namespace dml {

/// The random stream of a parameter's name, so that adding a parameter does not change others.
Random stream_of(std::uint64_t seed, Purpose purpose, const std::string& name);

/// A is Kaiming-uniform with a = √5, which is U(±1/√in), or N(0, 1/r) for `init` "gaussian". B is zero, or like A for
/// "false".
void init_adapter(const LoraAdapter& lora, const std::string& init, std::uint64_t seed, const std::string& name);
/// For embeddings: A is zero, B is N(0, 1); both are N(0, 1) for `init` "false".
void init_embedding_adapter(const LoraAdapter& lora, const std::string& init, std::uint64_t seed,
                            const std::string& name);
struct AdapterRestart {
  std::uint64_t seed = 0;
  std::int64_t number = 0;  // of the restart; every one has other random numbers
  bool embedding = false;   // the adapter is that of an embedding
  bool gaussian = false;    // A is N(0, 1/r) instead of uniform
  bool first_part = true;   // false: another part of a fused matrix, whose parts share A, so only B is set
};
/// Restarts an adapter after a merge (ReLoRA): A is drawn again and B is zero; for embeddings the reverse.
void reinit_adapter(const LoraAdapter& lora, const AdapterRestart& restart);
/// Sets DoRA's magnitude so that the model's function is that of the base: m = ‖W + s·BA‖.
void init_magnitude(const Linear& linear);

/// A weight of `dtype` with values (rows, cols), stored in memory added to `owned`; f16 becomes f32. `nested`: the
/// scales of NF4 are rounded as by double quantization.
kernels::Weight keep_values(DType dtype, std::vector<float> values, std::int64_t rows, std::int64_t cols, bool nested,
                            std::vector<std::vector<float>>& owned);

}  // namespace dml
