// Where the gathered values, or the whole gradients, of parts lie in a memory that holds only a few parts at a time.
//
//   small parts (the first of each unit)            large parts
//   [ embed | head ][ layer 0, 2, … | layer 1, 3, … ]   [ matrices … | the next matrices … ]
//                          two buffers in turn                two buffers in turn
//   each group with room to receive other ranks' shards of gradients: [ rank 1 | rank 2 | … ]
//
// So the next layer or matrix is transferred while one is in use. A buffer of large parts is as large as the largest of
// them, and holds as many as fit of those that follow one another. Where embedding and head are never needed together
// nor beside a layer (ParameterStore::embedding_and_head_share_buffer), they and the layers lie in the same memory: the
// next one waits until the one before it is done. A part whose shards do not fit into the room is exchanged in chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dist/shards.h"
#include "nn/parameter.h"

namespace dml {

class PartBuffers {
 public:
  struct Buffer {
    std::int64_t first = 0, last = 0;  // floats of the memory
    std::int64_t room = 0;             // where others' shards are received, `chunk` floats of each
    std::int64_t chunk = 0;            // largest number of floats of a shard that is exchanged at once
  };
  PartBuffers() = default;
  /// For every part of every unit, in the order of unit_parts(). `ranks` share each; `receive`: with room for the
  /// others'.
  PartBuffers(const ParameterStore& store, int ranks, bool receive);

  const Buffer& operator[](std::size_t part) const { return buffers_[part]; }
  bool overlap(std::size_t a, std::size_t b) const {
    return buffers_[a].first < buffers_[b].last && buffers_[b].first < buffers_[a].last;
  }
  /// Whether the buffers of two parts, both being exchanged, overlap.
  bool exchanges_collide(std::size_t a, std::size_t b) const;
  /// Floats in all, and without the room for receiving.
  std::int64_t floats() const { return floats_; }
  std::int64_t whole_parts() const { return whole_; }

 private:
  std::vector<Buffer> buffers_;
  std::int64_t floats_ = 0, whole_ = 0, others_ = 0;
};

}  // namespace dml
