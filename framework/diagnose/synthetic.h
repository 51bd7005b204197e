// Synthetic input for benchmarks without model and data: random tokens in documents of given lengths, and random base
// weights in the dtypes of the recipe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/packed_batch.h"
#include "model/build.h"
#include "recipe/recipe.h"

namespace dml {

/// A document of `tokens` tokens, of which the last `trained` are trained (at most tokens − 1: nothing predicts the
/// first).
struct SyntheticDocument {
  std::int64_t tokens = 0, trained = 0;
};

/// Reads a file of lines "tokens trained". UserError with file and line.
std::vector<SyntheticDocument> read_documents(const std::string& path);

/// One micro-batch with its own memory.
class SyntheticBatch {
 public:
  /// `pairs`: two documents each, with a common prompt.
  SyntheticBatch(std::span<const SyntheticDocument> documents, std::int64_t vocab, std::uint64_t seed,
                 bool pairs = false);
  PackedBatch batch() const {
    return {.tokens = tokens_, .labels = labels_, .positions = positions_, .starts = starts_, .shared = shared_};
  }

 private:
  std::vector<Token> tokens_, labels_;
  std::vector<std::int32_t> positions_, starts_, shared_;
};

/// Random weights: uniform, with the standard deviation of a newly initialized model.
class SyntheticWeights {
 public:
  SyntheticWeights(const ModelSpec& spec, const ModelSection& model, const AdapterSection& adapter);
  /// Valid as long as this object. Empty for full fine-tuning, where the model itself initializes every weight.
  TensorSource source();
  std::size_t bytes() const;

 private:
  StoredTensor make(const WeightName& weight);

  const ModelSpec& spec_;
  const ModelSection& model_;
  const AdapterSection& adapter_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::map<std::string, StoredTensor> made_;
  std::size_t bytes_ = 0;
};

}  // namespace dml
