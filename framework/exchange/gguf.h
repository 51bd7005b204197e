// The GGUF container, version 3 (ggml's docs/gguf.md): key-value pairs, tensor infos, padding, data. Little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/files.h"

namespace dml {

/// The storage of a tensor's elements: an element type, or a block format (kernels/quant_ggml.h).
struct GgmlType {
  std::string_view name;  // "q4_k"
  std::uint32_t id;
  std::int64_t values, bytes;    // of a block; for an element type, 1 and its size
  std::optional<DType> dtype{};  // unset: a known type that dml neither reads nor writes

  std::int64_t size(std::int64_t elements) const { return elements / values * bytes; }
};
/// All types that a file may contain.
std::span<const GgmlType> ggml_types();
/// The type with this id; null if it is unknown.
const GgmlType* ggml_type(std::uint32_t id);
const GgmlType& ggml_type(DType dtype);
const GgmlType* ggml_type(std::string_view name);

/// The value of a key: a number, a boolean, a string, or an array of these. Numbers keep their type.
class GgufValue {
 public:
  enum class Type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

  static GgufValue u16(std::uint16_t x);
  static GgufValue u32(std::uint32_t x);
  static GgufValue i32(std::int32_t x);
  static GgufValue f32(float x);
  static GgufValue boolean(bool x);
  static GgufValue text(std::string x);
  static GgufValue texts(std::vector<std::string> x);
  static GgufValue i32s(std::span<const std::int32_t> x);
  static GgufValue f32s(std::span<const float> x);
  static GgufValue bytes(std::string_view x);
  /// A value as stored in a file: `raw` holds the elements of a number or array of numbers.
  GgufValue(Type type, Type element, std::string raw, std::vector<std::string> strings)
      : type_(type), element_(element), raw_(std::move(raw)), texts_(std::move(strings)) {}

  Type type() const { return type_; }
  /// The element type of an array; else type().
  Type element() const { return type_ == Type::array ? element_ : type_; }
  bool is_text() const { return type_ == Type::text; }
  bool is_number() const { return type_ != Type::text && type_ != Type::array && type_ != Type::boolean; }
  bool is_array_of_texts() const { return type_ == Type::array && element_ == Type::text; }
  /// Number of elements of an array; 1 for other values.
  std::size_t count() const;
  /// Element i of numbers or booleans.
  double number(std::size_t i = 0) const;
  std::int64_t integer(std::size_t i = 0) const;
  bool truth() const { return number() != 0; }
  const std::string& str() const { return texts_.front(); }
  const std::vector<std::string>& strings() const { return texts_; }
  const std::string& raw() const { return raw_; }

  /// Bytes of one element; 0 for strings and arrays.
  static std::size_t width(Type type);

 private:
  Type type_, element_;
  std::string raw_;
  std::vector<std::string> texts_;
};

/// Keys in the order of the file.
class GgufMetadata {
 public:
  /// Adds a key that does not exist yet.
  void add(std::string key, GgufValue value) { entries_.emplace_back(std::move(key), std::move(value)); }
  /// Replaces the value of an existing key.
  void set(std::string key, GgufValue value);
  const GgufValue* find(std::string_view key) const;
  const std::vector<std::pair<std::string, GgufValue>>& all() const { return entries_; }

 private:
  std::vector<std::pair<std::string, GgufValue>> entries_;
};

struct GgufTensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first, as in safetensors; a file stores the reverse
  const GgmlType* type = nullptr;

  std::int64_t elements() const;
  std::int64_t bytes() const { return type->size(elements()); }
};

/// Writes a file sequentially; commit() renames it to its final name.
class GgufWriter {
 public:
  static constexpr std::int64_t kAlignment = 32;

  GgufWriter(const std::string& path, const GgufMetadata& metadata, std::vector<GgufTensorInfo> tensors);

  const std::vector<GgufTensorInfo>& tensors() const { return tensors_; }
  /// Appends data of the tensors in order, in pieces of any size that do not span two tensors.
  void append(const void* data, std::size_t size);
  void commit();

 private:
  std::vector<GgufTensorInfo> tensors_;
  FileWriter file_;
  std::size_t next_ = 0;
  std::int64_t in_tensor_ = 0;
};

}  // namespace dml
