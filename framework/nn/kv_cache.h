// Keys and values of one sequence under generation, all layers. Rows are appended; memory is taken once.
#pragma once

#include <vector>

#include "core/arena.h"
#include "kernels/cached_rows.h"

namespace dml {

class KvCache {
 public:
  /// Room for `capacity` tokens of `heads` keys and as many values, in float32, bfloat16 or int8.
  KvCache(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
          kernels::Storage storage = kernels::Storage::f32);

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  /// The first `count` rows of a layer.
  kernels::CachedRows keys(std::int64_t layer, std::int64_t count) const { return layers_[layer].keys.head_of(count); }
  kernels::CachedRows values(std::int64_t layer, std::int64_t count) const {
    return layers_[layer].values.head_of(count);
  }
  /// After every layer has written its rows: they belong to the sequence now.
  void advance(std::int64_t rows) { length_ += rows; }
  /// Forgets everything behind the first `length` tokens.
  void truncate(std::int64_t length) { length_ = length; }
  /// Becomes what `other`, a cache of the same shape, is; the first `same` rows are equal already.
  void copy(const KvCache& other, std::int64_t same);

  /// Bytes of keys and values of one token in all layers.
  static std::int64_t bytes_per_token(std::int64_t layers, std::int64_t heads, std::int64_t head_dim,
                                      kernels::Storage storage);

 private:
  struct Layer {
    kernels::CachedRows keys, values;
  };
  Arena memory_;
  std::vector<Layer> layers_;
  std::int64_t capacity_, length_ = 0;
};

/// New rows of one sequence inside a batch that is generated together.
struct SequenceRows {
  KvCache* cache = nullptr;
  std::int64_t first = 0, count = 0;  // rows of the batch
};

}  // namespace dml
