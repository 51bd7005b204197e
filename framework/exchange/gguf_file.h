// A GGUF file, mapped. A file that opens is valid: every key is read, every tensor lies in the file and has the size
// that its shape and type say. Nothing is allocated before the file is seen to be large enough for it.
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
  static constexpr std::size_t kMaxFront = std::size_t{256} << 20;  // keys and infos
  static constexpr std::uint64_t kMaxTexts = 1u << 22;              // of one array

  /// UserError with the path, the byte and what was expected there.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const GgufMetadata& metadata() const { return metadata_; }
  /// In the order of the file.
  const std::vector<GgufTensorView>& tensors() const { return tensors_; }
  const GgufTensorView* find(std::string_view name) const;
  /// Bytes before the tensors' data.
  std::size_t front() const { return front_; }

  /// A key that must be there, of the kind asked for, or a UserError naming it.
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

/// Whether a path names a GGUF file, by its extension.
bool is_gguf_file(const std::string& path);

}  // namespace dml
