// zero3 for weights that are not trained: each rank keeps a part of every layer's bytes, as they are stored, and
// gathers the whole layer when a pass comes to it, the neighbour ahead of time. Only the part a rank keeps is read from
// the files.
//
// This saves memory when ranks are on several hosts; on one host the mapped file is there once for all ranks anyway.
// Outside of passes (and for embedding and head, which are not given to this class) weights are read where they are
// mapped, so other code is unaffected: gathering rebinds the views, giving up a buffer binds them back.
#pragma once

#include <memory>
#include <vector>

#include "core/arena.h"
#include "dist/comm.h"
#include "kernels/weight.h"

namespace dml {

class FrozenShards {
 public:
  /// `units`: the frozen weights of every unit; they must live on. A collective of equal arguments, without exchanges.
  FrozenShards(Comm& comm, std::vector<std::vector<kernels::Weight*>> units);
  ~FrozenShards();

  /// Makes the unit's weights readable and begins to gather that of the neighbour in this direction. All ranks make the
  /// same calls.
  void need(std::size_t unit, int direction);
  /// Binds the weights to their files again.
  void unbind();

  /// Bytes of the parts a rank keeps and of the buffers.
  static std::size_t memory(const std::vector<std::vector<kernels::Weight*>>& units, int ranks);

 private:
  enum class Array { data, scales, scale_codes, scale_blocks };  // of a weight
  struct WeightArray {
    kernels::Weight* weight;
    Array kind;
    const std::byte* mapped;
    std::size_t first, size;  // place in the unit's block
  };
  struct Block {
    std::vector<WeightArray> arrays;
    std::size_t size = 0;
    std::byte* own = nullptr;
  };
  struct Buffer {
    std::byte* data = nullptr;
    std::ptrdiff_t unit = -1;
    std::unique_ptr<Pending> pending;
    std::int64_t used = 0;
  };

  static void bind(const WeightArray& array, const std::byte* to);
  static std::vector<Block> lay_out(const std::vector<std::vector<kernels::Weight*>>& units);
  static std::size_t cut(std::size_t size, int rank, int ranks);
  Buffer& start(std::size_t unit);
  void free(Buffer& buffer);

  Comm& comm_;
  std::vector<Block> blocks_;
  Arena own_, gathered_;
  std::vector<Buffer> buffers_;
  std::int64_t clock_ = 0;
};

}  // namespace dml
