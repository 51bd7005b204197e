// Keys and values of one sequence under generation, all layers. Rows are appended; memory is taken once.
#pragma once

#include <vector>

#include "core/arena.h"
#include "core/matrix.h"

namespace dml {

class KvCache {
 public:
  /// `width` floats of keys and of values per token and layer; room for `capacity` tokens.
  KvCache(std::int64_t layers, std::int64_t width, std::int64_t capacity);

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  /// The first `count` rows of a layer.
  Mat keys(std::int64_t layer, std::int64_t count) { return {keys_[layer].data, count, width_}; }
  Mat values(std::int64_t layer, std::int64_t count) { return {values_[layer].data, count, width_}; }
  /// After every layer has written its rows: they belong to the sequence now.
  void advance(std::int64_t rows) { length_ += rows; }
  /// Forgets everything behind the first `length` tokens.
  void truncate(std::int64_t length) { length_ = length; }

 private:
  Arena memory_;
  std::vector<Mat> keys_, values_;
  std::int64_t width_, capacity_, length_ = 0;
};

/// New rows of one sequence inside a batch that is generated together.
struct SequenceRows {
  KvCache* cache = nullptr;
  std::int64_t first = 0, count = 0;   // rows of the batch
};

}  // namespace dml
