// Protobuf's wire format, as far as tokenizer.model and the logs of TensorBoard and W&B need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace dml::protobuf {

enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// Writing: each function appends to a string.

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

/// Iterates over the fields of a message; every length is checked before it is used. Throws UserError that begins with
/// `source` and names the byte.
class Message {
 public:
  Message(std::string_view bytes, std::string source) : Message(bytes, 0, std::move(source)) {}

  /// Advances to the next field; false at the end.
  bool next();
  /// The number of the field.
  std::uint64_t number = 0;
  // The value of the field; UserError when it is of another wire type.
  std::uint64_t integer() const { return need(kVarint), value_; }
  float real() const;
  std::string_view text() const { return need(kLength), data_; }
  Message message() const { return need(kLength), Message(data_, start_ + at_ - data_.size(), source_); }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw UserError("{}: byte {}: {}", source_, start_ + at_, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  Message(std::string_view bytes, std::size_t start, std::string source)
      : bytes_(bytes), start_(start), source_(std::move(source)) {}
  std::uint64_t varint();
  void take(std::uint64_t length);
  void need(WireType wire) const;

  std::string_view bytes_, data_;
  std::size_t start_, at_ = 0;  // of the message in the file; of the next byte in the message
  std::string source_;
  int wire_ = 0;
  std::uint64_t value_ = 0;
};

}  // namespace dml::protobuf
