// One safetensors file: reading through a mapping, writing as a stream.
//
// Layout: 8 bytes little-endian header length, JSON header padded with spaces to a multiple of 8, data. Opening a file
// validates it: every view is inside the file and has the size of its shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_dtype.h"
#include "checkpoint/safetensors_header.h"
#include "core/files.h"

namespace dml {

/// A tensor in a mapped file; valid as long as its SafetensorsFile.
struct TensorView {
  std::string_view name;
  DType dtype = DType::f32;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t size() const;
  /// Whether it is in a ggml block format, as quantized matrices of GGUF files are.
  bool quantized() const;
  /// Whether its values can be read as float32.
  bool readable() const { return quantized() || is_readable_float(dtype); }
  /// Reads elements [first, first + count) as float32; requires readable().
  void read(std::int64_t first, std::int64_t count, float* out) const;
  /// Whether the data may be used in place as elements of its dtype.
  bool aligned() const;
  /// All elements as float32; UserError for integer and 8-bit types.
  std::vector<float> floats(const std::string& source) const;
};

/// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

class SafetensorsFile {
 public:
  /// Maps and checks everything. Throws UserError.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  /// The tensors, sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  /// The tensor, or a UserError naming the nearest.
  const TensorView& at(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return header_.metadata; }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::vector<TensorView> tensors_;
};

/// A tensor to be written.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;

  std::int64_t size() const;
  std::size_t bytes() const { return static_cast<std::size_t>(dtype_bytes(dtype, size())); }
};

/// The layout of a file with these tensors.
struct SafetensorsLayout {
  /// In the order of the file: larger element types first, so that all stay aligned, then by name.
  std::vector<TensorInfo> tensors;
  std::string front;                 // header, preceded by its length
  std::vector<std::size_t> offsets;  // of each tensor, from the start of the file
  std::size_t size = 0;              // of the finished file

  explicit SafetensorsLayout(std::vector<TensorInfo> declared,
                             const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
};

/// Writes a file sequentially: all tensors are declared first, then their data is appended in the order of tensors(),
/// in pieces of any size. commit() renames the file to its final name.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  /// The tensors in the order of the file.
  const std::vector<TensorInfo>& tensors() const { return layout_.tensors; }
  void append(const void* data, std::size_t size);
  /// float32 values, rounded to `dtype`.
  void append_floats(DType dtype, std::span<const float> values);
  void commit();

 private:
  SafetensorsLayout layout_;
  FileWriter file_;
};

/// Writes a small file; `values(info)` returns each tensor's float32 values.
void write_safetensors(const std::string& path, std::vector<TensorInfo> tensors,
                       const std::function<std::span<const float>(const TensorInfo&)>& values,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace dml
