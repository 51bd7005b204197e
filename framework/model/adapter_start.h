// Starting values of an adapter's parameters, as PEFT initialises them. Starts that are taken out of the base
// weight itself are in low_rank_init.h; what they leave of it is kept here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "nn/linear.h"

namespace dml {

/// A random stream of its own for every name, so that adding a parameter changes no other.
Random stream_of(std::uint64_t seed, Purpose purpose, const std::string& name);

/// A kaiming-uniform with a = √5, that is U(±1/√in), or N(0, 1/r) (`init` "gaussian"); B zero, or like A ("false").
void start_adapter(const LoraAdapter& lora, const std::string& init, std::uint64_t seed, const std::string& name);
/// On embeddings: A zero, B N(0, 1); both N(0, 1) where the adapter is to start at random ("false").
void start_embedding_adapter(const LoraAdapter& lora, const std::string& init, std::uint64_t seed,
                             const std::string& name);
/// In the middle of a run, after a merge: A at random as at first (its own numbers for every `number` of a restart), B
/// zero; on embeddings the other way round. Without `first_part` B alone, which parts of a fused matrix do not share.
void restart_adapter(const LoraAdapter& lora, bool embedding, bool gaussian, bool first_part, std::uint64_t seed,
                     std::int64_t number);
/// DoRA starts as the base model: m = ‖W + s·BA‖.
void start_magnitude(const Linear& linear);

/// Values (rows, cols) as a weight of a type, in memory added to `owned`; f16 becomes f32. `nested`: NF4's scales as
/// double quantisation leaves them.
kernels::Weight keep_values(DType dtype, std::vector<float> values, std::int64_t rows, std::int64_t cols, bool nested,
                            std::vector<std::vector<float>>& owned);

}  // namespace dml
