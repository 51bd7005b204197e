// Writes the same files as ModelWriter from several processes at once: each writes the values it holds at their final
// offsets, so no process gathers tensors. Files are not written atomically, so the folder must be one that no reader
// sees yet (CheckpointWriter, StagedFiles).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model_files.h"
#include "core/bf16.h"
#include "core/descriptor.h"

namespace dml {

class ModelParts {
 public:
  /// Every process passes the same tensors in the same order.
  ModelParts(std::string directory, std::vector<TensorInfo> tensors,
             std::size_t max_bytes = ModelShards::kDefaultBytes);
  ModelParts(const ModelParts&) = delete;
  ModelParts& operator=(const ModelParts&) = delete;

  /// Creates the files with headers, sizes and index; called by one process before any writes.
  void create();
  /// Writes elements `first`, first + 1, … of a tensor, rounded to its dtype.
  void write_floats(std::string_view tensor, std::int64_t first, std::span<const float> values);
  /// Like write_floats(), from bfloat16.
  void write_bf16(std::string_view tensor, std::int64_t first, std::span<const bf16> values);
  void write(std::string_view tensor, std::span<const std::byte> whole);
  /// Flushes to the disk. IoError, as for all of these functions.
  void commit();

 private:
  struct Shard {
    std::string path;
    SafetensorsLayout layout;
    Descriptor file = Descriptor();
  };
  struct Place {
    std::size_t shard, tensor;
  };
  const Place* find(std::string_view tensor) const;
  void write_at(Shard& shard, std::size_t offset, const void* data, std::size_t size);

  std::string directory_;
  ModelShards names_;
  std::vector<Shard> shards_;
  std::vector<std::pair<std::string, Place>> places_;  // by name
};

}  // namespace dml
