// The layout of the gathered values, or of the whole gradients, of parts in memory that holds only a few parts at a
// time.
//
//   small parts (the first of each unit)            large parts
//   [ embed | head ][ layer 0, 2, … | layer 1, 3, … ]   [ matrices … | the next matrices … ]
//                          two buffers in turn                two buffers in turn
//   each group with room to receive other ranks' shards of gradients: [ rank 1 | rank 2 | … ]
//
// So the next layer or matrix is transferred while the current one is in use. A buffer of large parts has the size of
// the largest of them, and holds as many consecutive ones as fit. If embedding and head are never needed together or
// with a layer (ParameterStore::embedding_and_head_share_buffer), they share memory with the layers: the next one waits
// until the previous one is done. A part whose shards exceed the receive room is exchanged in chunks.
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
    std::int64_t first = 0, last = 0;  // range of the memory, in floats
    std::int64_t room = 0;             // offset of the receive room: `chunk` floats per other rank
    std::int64_t chunk = 0;            // maximum number of floats of a shard that are exchanged at once
  };
  PartBuffers() = default;
  /// Lays out every part of every unit, in the order of unit_parts(). `ranks` ranks share each part; `receive`: with
  /// room to receive other ranks' shards.
  PartBuffers(const ParameterStore& store, int ranks, bool receive);

  const Buffer& operator[](std::size_t part) const { return buffers_[part]; }
  bool overlap(std::size_t a, std::size_t b) const {
    return buffers_[a].first < buffers_[b].last && buffers_[b].first < buffers_[a].last;
  }
  /// Whether the buffers of two parts, both being exchanged, overlap.
  bool exchanges_collide(std::size_t a, std::size_t b) const;
  /// Size in floats with the receive room; whole_parts(): without it.
  std::int64_t floats() const { return floats_; }
  std::int64_t whole_parts() const { return whole_; }

 private:
  std::vector<Buffer> buffers_;
  std::int64_t floats_ = 0, whole_ = 0, others_ = 0;
};

}  // namespace dml
