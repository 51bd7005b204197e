// One array in a safetensors file of its own: written sequentially without knowing its length, read by mapping. numpy
// and torch can open prepared data, too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/hash.h"

namespace dml {

template <class T>
inline constexpr const char* kTensorType = nullptr;
template <>
inline constexpr const char* kTensorType<std::int32_t> = "I32";
template <>
inline constexpr const char* kTensorType<std::int64_t> = "I64";
template <>
inline constexpr const char* kTensorType<float> = "F32";
template <>
inline constexpr const char* kTensorType<double> = "F64";

/// A file of prepared data, as listed in its manifest. `digest`: of the array's bytes, computed while writing; the
/// header is the same for all arrays of a size and is compared byte by byte.
struct WrittenFile {
  std::string name;
  std::size_t size = 0;
  std::string digest;
};

class TensorWriterBase {
 public:
  /// Completes the file and returns its entry for the manifest.
  WrittenFile finish();

 protected:
  TensorWriterBase(const std::string& path, std::string name, const char* type, std::size_t width);
  void append_bytes(const void* data, std::size_t size);

 private:
  void flush();
  FileWriter file_;
  Hasher hasher_;
  std::vector<char> buffer_;  // one block of the file, written without another copy
  std::string name_, type_;
  std::size_t width_;
};

template <class T>
class TensorWriter : public TensorWriterBase {
 public:
  TensorWriter(const std::string& path, const std::string& name)
      : TensorWriterBase(path, name, kTensorType<T>, sizeof(T)) {}
  void append(std::span<const T> values) { append_bytes(values.data(), values.size_bytes()); }
  void append(T value) { append_bytes(&value, sizeof value); }
};

/// Whether the array has this digest. The file is read, not mapped.
bool has_digest(const std::string& path, const std::string& digest);
/// The array's bytes, checked: UserError when the file is not exactly what TensorWriter writes.
std::span<const std::byte> tensor_bytes(const MappedFile& file, const std::string& name, const char* type,
                                        std::size_t width);

template <class T>
std::span<const T> tensor(const MappedFile& file, const std::string& name) {
  auto bytes = tensor_bytes(file, name, kTensorType<T>, sizeof(T));
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace dml
