#include "checkpoint/model_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/directory.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/shown.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxShards = 10'000;

bool is_inside(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

/// The shard's path; UserError when it is outside the folder.
std::string confined(const std::string& directory, const std::string& shard, const std::string& index_path) {
  const std::string named = shown(shard, 200);
  if (shard.empty() || shard.find('\0') != std::string::npos || fs::path(shard).is_absolute())
    throw UserError("{}: shard '{}' is not the name of a file in this folder", index_path, named);
  std::string root = real_path(directory), path = real_path(path_in(directory, shard));
  if (is_inside(path, root)) return path;
  fs::path snapshots = fs::path(root).parent_path();
  if (snapshots.filename() == "snapshots" && is_inside(path, (snapshots.parent_path() / "blobs").string())) return path;
  throw UserError("{}: shard '{}' is outside the model's folder", index_path, named);
}

[[noreturn]] void no_weights(const std::string& directory) {
  require_directory(directory);
  for (const char* name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth", "pytorch_model.pt"})
    if (file_exists(path_in(directory, name)))
      throw UserError(
          "{}: only pickled weights ({}), which can run code and are never read; save the model as safetensors",
          directory, name);
  throw UserError("{}: no model.safetensors and no model.safetensors.index.json", directory);
}

}  // namespace

ModelFiles::ModelFiles(const std::string& directory) : directory_(directory) {
  std::string single = path_in(directory, "model.safetensors"),
              index = path_in(directory, "model.safetensors.index.json");
  if (file_exists(single)) {
    files_.emplace_back(single);
    tensors_ = files_.front().tensors();
  } else if (file_exists(index)) {
    open_sharded(index);
  } else {
    no_weights(directory);
  }
}

void ModelFiles::open_sharded(const std::string& index_path) {
  JsonLimits limits{SafetensorsHeader::kMaxBytes, 8, SafetensorsHeader::kMaxEntries,
                    4 * SafetensorsHeader::kMaxEntries};
  WideJson index = read_wide_json(index_path, limits);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw UserError("{}: no 'weight_map' object", index_path);

  std::map<std::string, std::size_t> opened;  // shard name → index in files_
  for (auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      throw UserError("{}: weight_map '{}' is not the name of a file", index_path, shown(tensor, 200));
    auto [it, is_new] = opened.try_emplace(shard.get_ref<const std::string&>(), files_.size());
    if (is_new) {
      if (opened.size() > kMaxShards) throw UserError("{}: more than {} shards", index_path, kMaxShards);
      std::string path = confined(directory_, it->first, index_path);
      if (!file_exists(path)) throw UserError("{}: shard '{}' is missing", index_path, shown(it->first, 200));
      files_.emplace_back(path);
    }
    const TensorView* view = files_[it->second].find(tensor);
    if (!view)
      throw UserError("{}: tensor '{}' should be in {} by the index, but that file has no such tensor", index_path,
                      shown(tensor, 200), shown(it->first, 200));
    tensors_.push_back(*view);  // weight_map is ordered by name
  }
  if (index.contains("metadata") && index["metadata"].is_object() && index["metadata"].contains("total_size")) {
    auto& total = index["metadata"]["total_size"];
    if (!total.is_number() || total.get<double>() != static_cast<double>(bytes()))
      log_warning("{}: total_size is {}, the tensors have {} bytes", index_path, shown(total.dump(), 40), bytes());
  }
}

const TensorView* ModelFiles::find(std::string_view name) const {
  if (auto* t = find_exactly(name)) return t;
  for (std::string_view prefix : {"model.", "transformer."})
    if (name.starts_with(prefix)) return find_exactly(name.substr(prefix.size()));
  return nullptr;
}

const TensorView* ModelFiles::find_exactly(std::string_view name) const {
  auto it = std::ranges::lower_bound(tensors_, name, {}, &TensorView::name);
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

std::size_t ModelFiles::bytes() const {
  std::size_t n = 0;
  for (auto& t : tensors_) n += t.bytes.size();
  return n;
}

std::vector<std::string> ModelFiles::paths() const {
  std::vector<std::string> out = other_paths_;
  for (auto& f : files_) out.push_back(f.path());
  return out;
}

ModelShards::ModelShards(std::vector<TensorInfo> tensors, std::size_t max_bytes) {
  std::size_t filled = 0;
  for (auto& t : tensors) {
    if (shards_.empty() || (filled > 0 && filled + t.bytes() > max_bytes)) {
      shards_.emplace_back();
      filled = 0;
    }
    filled += t.bytes();
    shards_.back().push_back(std::move(t));
  }
  if (shards_.empty()) shards_.emplace_back();
}

std::string ModelShards::file_name(std::size_t shard) const {
  if (shards_.size() == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards_.size());
}

void ModelShards::write_index(const std::string& directory) const {
  if (shards_.size() == 1) return;
  WideJson index;  // sorted keys, as Hugging Face writes it
  std::size_t total = 0;
  for (std::size_t s = 0; s < shards_.size(); ++s)
    for (auto& t : shards_[s]) {
      index["weight_map"][t.name] = file_name(s);
      total += t.bytes();
    }
  index["metadata"]["total_size"] = total;
  write_file(path_in(directory, "model.safetensors.index.json"), index.dump(2) + "\n");
}

ModelWriter::ModelWriter(std::string directory, std::vector<TensorInfo> tensors, std::size_t max_shard_bytes)
    : directory_(std::move(directory)), shards_(std::move(tensors), max_shard_bytes) {
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    SafetensorsLayout layout(shards_[s]);
    order_.insert(order_.end(), layout.tensors.begin(), layout.tensors.end());
  }
  open();
}

ModelWriter::~ModelWriter() = default;

void ModelWriter::open() {
  writer_ = std::make_unique<SafetensorsWriter>(path_in(directory_, shards_.file_name(shard_)), shards_[shard_]);
}

/// Advances to the next tensor and opens its shard.
void ModelWriter::advance() {
  DML_CHECK(next_ < order_.size(), "all declared tensors are written");
  if (in_shard_ == shards_[shard_].size()) {
    writer_->commit();
    ++shard_;
    in_shard_ = 0;
    open();
  }
  ++in_shard_;
  ++next_;
}

void ModelWriter::append(const void* data, std::size_t size) {
  advance();
  DML_CHECK(size == order_[next_ - 1].bytes(), "{}: {} bytes for shape {}", order_[next_ - 1].name, size,
            shape_text(order_[next_ - 1].shape));
  writer_->append(data, size);
}

void ModelWriter::append_floats(std::span<const float> values) {
  advance();
  auto& t = order_[next_ - 1];
  DML_CHECK(static_cast<std::int64_t>(values.size()) == t.size(), "{}: {} values for shape {}", t.name, values.size(),
            shape_text(t.shape));
  writer_->append_floats(t.dtype, values);
}

void ModelWriter::commit() {
  DML_CHECK(next_ == order_.size(), "{} of {} tensors were written", next_, order_.size());
  writer_->commit();
  shards_.write_index(directory_);
}

}  // namespace dml
