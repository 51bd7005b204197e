// One array in a safetensors file of its own: written from front to back without knowing its length, read by mapping.
// So prepared data can be opened from numpy and torch as it lies there.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/files.h"

namespace dml {

template <class T>
inline constexpr const char* kTensorType = nullptr;
template <>
inline constexpr const char* kTensorType<std::int32_t> = "I32";
template <>
inline constexpr const char* kTensorType<std::int64_t> = "I64";

class TensorWriterBase {
 public:
  void finish();

 protected:
  TensorWriterBase(const std::string& path, std::string name, const char* type, std::size_t width);
  void append_bytes(const void* data, std::size_t size) { file_.write(data, size); }

 private:
  FileWriter file_;
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

/// The array's bytes, checked: UserError when the file is not exactly what TensorWriter writes.
std::span<const std::byte> tensor_bytes(const MappedFile& file, const std::string& name, const char* type,
                                        std::size_t width);

template <class T>
std::span<const T> tensor(const MappedFile& file, const std::string& name) {
  auto bytes = tensor_bytes(file, name, kTensorType<T>, sizeof(T));
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace dml
