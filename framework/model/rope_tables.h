// Cosines and sines of the rotary embedding for every position, with all rope scalings of transformers.
//
// Two scalings depend on the length of the text: beyond the original context length, longrope uses its long factors and
// dynamic NTK a larger base. transformers uses the longest sequence of a call; dml uses the length of each document, so
// results depend on neither packing nor the other documents of the batch.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/arena.h"
#include "kernels/rope.h"
#include "model/spec.h"

namespace dml {

/// Sets `inverse` (rotary dim / 2, rounded up) to the inverse frequencies of a document of `length` tokens; returns the
/// factor of cos and sin. `dim`: the rotary dim if it is odd (with partial rope); 0: twice the number of frequencies.
double rope_frequencies(const RopeSpec& rope, std::int64_t max_positions, std::int64_t length,
                        std::span<double> inverse, std::int64_t dim = 0);

/// The length beyond which documents have other frequencies; the maximum int64 for most scalings.
std::int64_t rope_switch(const RopeSpec& rope, std::int64_t max_positions);

/// Tokens [first, first + count) of a pass belong to a document of `length` tokens (in generation: so far).
struct RopeDocument {
  std::int64_t first = 0, count = 0, length = 0;
};

/// Owns the tables of one model for positions [0, length).
class RopeTables {
 public:
  RopeTables() = default;
  RopeTables(const ModelSpec& spec, std::int64_t length);
  std::int64_t length() const { return length_; }
  /// Whether documents of up to length() tokens may have different angles.
  bool differ_by_document() const { return std::min(full_.last, local_.last) < length_; }

  /// The angles of a pass over `documents`, whose tokens have `positions`. Memory is taken from the arena only if
  /// documents may differ in their angles.
  kernels::RopeAngles full(std::span<const std::int32_t> positions, std::span<const RopeDocument> documents,
                           Arena& arena) const {
    return angles(full_, positions, documents, arena);
  }
  kernels::RopeAngles local(std::span<const std::int32_t> positions, std::span<const RopeDocument> documents,
                            Arena& arena) const {
    return angles(local_, positions, documents, arena);
  }

 private:
  struct Table {
    RopeSpec rope;
    std::int64_t half = 0, dim = 0, max_positions = 0;
    std::int64_t last =
        std::numeric_limits<std::int64_t>::max();  // the longest document that uses the first rows: rope_switch()
    std::vector<float> cos, sin;
    void add_rows(std::int64_t count, std::int64_t length);
  };
  Table make(const RopeSpec& rope, const ModelSpec& spec) const;
  kernels::RopeAngles angles(const Table& table, std::span<const std::int32_t> positions,
                             std::span<const RopeDocument> documents, Arena& arena) const;

  Table full_, local_;
  std::int64_t length_ = 0;
  bool interleaved_ = false;
};

}  // namespace dml
