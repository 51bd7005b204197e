// zero3 for frozen weights: each rank keeps a shard of every layer's stored bytes and gathers a whole layer when a pass
// reaches it, and the next layer in advance. A rank reads only its own shards from the files.
//
// This saves memory if ranks are on several hosts; the ranks of one host share the mapped file anyway. Outside of
// passes (and for embedding and head, which are not given to this class) weights are read from the mapped files, so
// other code is unaffected: gathering rebinds the views, freeing a buffer binds them back.
#pragma once

#include <memory>
#include <vector>

#include "core/arena.h"
#include "dist/comm.h"
#include "kernels/weight.h"

namespace dml {

class FrozenShards {
 public:
  /// `units`: the frozen weights of every unit; they must outlive this object. All ranks pass equal arguments; nothing
  /// is exchanged.
  FrozenShards(Comm& comm, std::vector<std::vector<kernels::Weight*>> units);
  ~FrozenShards();

  /// Makes the unit's weights readable and starts gathering the next unit in this direction. All ranks make the same
  /// calls.
  void need(std::size_t unit, int direction);
  /// Binds the weights to their mapped files again.
  void unbind();

  /// Bytes of one rank's shards and of the buffers.
  static std::size_t memory(const std::vector<std::vector<kernels::Weight*>>& units, int ranks);

 private:
  enum class Array { data, scales, scale_codes, scale_blocks };  // of a weight
  struct WeightArray {
    kernels::Weight* weight;
    Array kind;
    const std::byte* mapped;
    std::size_t first, size;  // offset and bytes in the unit's block
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
