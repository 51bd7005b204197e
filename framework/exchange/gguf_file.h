// A mapped GGUF file. Opening it validates it: every key is parsed, and every tensor is inside the file and has the
// size of its shape and type. Memory is allocated only for counts that the file's size allows.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"
#include "exchange/gguf.h"

namespace dml {

struct GgufTensorView : GgufTensorInfo {
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  static constexpr std::size_t kMaxFront = std::size_t{256} << 20;  // maximum size of keys and tensor infos
  static constexpr std::uint64_t kMaxTexts = 1u << 22;              // maximum number of strings of an array

  /// UserError with the path, the byte offset and what was expected there.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const GgufMetadata& metadata() const { return metadata_; }
  /// The tensors in the order of the file.
  const std::vector<GgufTensorView>& tensors() const { return tensors_; }
  const GgufTensorView* find(std::string_view name) const;
  /// Bytes before the tensors' data.
  std::size_t front() const { return front_; }

  /// The value of a required key; UserError naming it when it is absent or of another type.
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  std::string text(std::string_view key) const;
  /// Like the functions above, but with a fallback for an absent key.
  std::int64_t integer(std::string_view key, std::int64_t fallback) const;
  double number(std::string_view key, double fallback) const;
  bool truth(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;

 private:
  class Parser;
  const GgufValue& required(std::string_view key) const;
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

  MappedFile file_;
  GgufMetadata metadata_;
  std::vector<GgufTensorView> tensors_;
  std::map<std::string_view, std::size_t> places_;
  std::size_t front_ = 0;
};

/// Throws UserError for a file that holds something else, such as an adapter.
void require_model(const GgufFile& file);
/// Whether a path names a GGUF file, by its extension.
bool is_gguf_file(const std::string& path);

}  // namespace dml
