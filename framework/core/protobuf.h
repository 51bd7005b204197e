// Writes protobuf's wire format, as far as tokenizer.model and the logs of TensorBoard and W&B need it: each function
// appends to a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml::protobuf {

void add_varint(std::string& out, std::uint64_t value);
/// A field of type int32, int64, bool or enum.
void add_integer(std::string& out, int field, std::int64_t value);
void add_float(std::string& out, int field, float value);
void add_double(std::string& out, int field, double value);
/// A field of type string, bytes, or a message that is encoded already.
void add_bytes(std::string& out, int field, std::string_view value);

/// Appends the bytes of `value`, little-endian.
template <class T>
void add_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace dml::protobuf
