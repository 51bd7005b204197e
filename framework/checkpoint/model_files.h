// The weights of a model folder: model.safetensors, or model.safetensors.index.json with its shards. Pickles are never
// read. Shards named by an index must lie in the folder (or, for a Hugging Face cache snapshot, in its blobs folder).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace dml {

class ModelFiles {
 public:
  /// Opens and checks every file. Throws UserError.
  explicit ModelFiles(const std::string& directory);
  /// Tensors of another file format, sorted by name; `backing` owns their data.
  ModelFiles(std::string name, std::vector<TensorView> tensors, std::vector<std::string> paths,
             std::shared_ptr<const void> backing)
      : directory_(std::move(name)),
        other_paths_(std::move(paths)),
        backing_(std::move(backing)),
        tensors_(std::move(tensors)) {}

  const std::string& directory() const { return directory_; }
  /// All tensors, by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// Finds a tensor by its full name, also in folders that were saved from the bare decoder and so lack the first part
  /// of their names ("wte.weight" for "transformer.wte.weight").
  const TensorView* find(std::string_view name) const;
  /// Bytes of all tensors.
  std::size_t bytes() const;
  /// Paths of the files read.
  std::vector<std::string> paths() const;

 private:
  void open_sharded(const std::string& index_path);
  const TensorView* find_exactly(std::string_view name) const;

  std::string directory_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> other_paths_;
  std::shared_ptr<const void> backing_;
  std::vector<TensorView> tensors_;
};

/// Assigns tensors to files.
class ModelShards {
 public:
  /// Maximum bytes of the tensors of a file; a larger tensor gets a file of its own.
  static constexpr std::size_t kDefaultBytes = 5'000'000'000;

  ModelShards(std::vector<TensorInfo> tensors, std::size_t max_bytes);

  std::size_t size() const { return shards_.size(); }
  /// The tensors of a file, in the order in which they were given.
  const std::vector<TensorInfo>& operator[](std::size_t shard) const { return shards_[shard]; }
  std::string file_name(std::size_t shard) const;
  /// Writes model.safetensors.index.json if there are several files.
  void write_index(const std::string& directory) const;

 private:
  std::vector<std::vector<TensorInfo>> shards_;
};

/// Writes `model.safetensors`, or shards of at most `max_shard_bytes` (a larger tensor gets a shard of its own) and
/// their index. Data is appended in the order of tensors().
class ModelWriter {
 public:
  static constexpr std::size_t kDefaultShard = ModelShards::kDefaultBytes;

  ModelWriter(std::string directory, std::vector<TensorInfo> tensors, std::size_t max_shard_bytes = kDefaultShard);
  ~ModelWriter();

  const std::vector<TensorInfo>& tensors() const { return order_; }
  /// The next tensor's data, whole.
  void append(const void* data, std::size_t size);
  /// The next tensor's values, rounded to its dtype.
  void append_floats(std::span<const float> values);
  /// Finishes the last shard and writes the index.
  void commit();

 private:
  void open();
  void advance();

  std::string directory_;
  ModelShards shards_;
  std::vector<TensorInfo> order_;
  std::unique_ptr<SafetensorsWriter> writer_;
  std::size_t shard_ = 0, in_shard_ = 0, next_ = 0;
};

}  // namespace dml
