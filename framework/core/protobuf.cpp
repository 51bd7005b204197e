#include "core/protobuf.h"

#include <bit>
#include <cstring>

#include "core/varint.h"

namespace dml::protobuf {
namespace {

static_assert(std::endian::native == std::endian::little);

void add_key(std::string& out, int field, WireType type) {
  add_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

}  // namespace

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void add_integer(std::string& out, int field, std::int64_t value) {
  add_key(out, field, kVarint);
  add_varint(out, static_cast<std::uint64_t>(value));
}

void add_float(std::string& out, int field, float value) {
  add_key(out, field, kFixed32);
  add_raw(out, value);
}

void add_double(std::string& out, int field, double value) {
  add_key(out, field, kFixed64);
  add_raw(out, value);
}

void add_bytes(std::string& out, int field, std::string_view value) {
  add_key(out, field, kLength);
  add_varint(out, value.size());
  out += value;
}

bool Message::next() {
  if (at_ >= bytes_.size()) return false;
  const std::uint64_t key = varint();
  number = key >> 3;
  wire_ = static_cast<int>(key & 7);
  if (number == 0 || number >= (1u << 29)) fail("field number {}", number);
  if (wire_ == kVarint) value_ = varint();
  else if (wire_ == kFixed64) take(8);
  else if (wire_ == kFixed32) take(4);
  else if (wire_ == kLength) take(varint());
  else fail("wire type {}", wire_);
  return true;
}

float Message::real() const {
  need(kFixed32);
  float x;
  std::memcpy(&x, data_.data(), 4);
  return x;
}

std::uint64_t Message::varint() {
  const auto value = read_varint([&] {
    if (at_ >= bytes_.size()) fail("cut off inside a number");
    return bytes_[at_++];
  });
  if (!value) fail("a number of more than 10 bytes");
  return *value;
}

void Message::take(std::uint64_t length) {
  if (length > bytes_.size() - at_) fail("a field of {} bytes, {} are left", length, bytes_.size() - at_);
  data_ = bytes_.substr(at_, length);
  at_ += length;
}

void Message::need(WireType wire) const {
  if (wire_ != wire) fail("field {} has wire type {}, expected {}", number, wire_, static_cast<int>(wire));
}

}  // namespace dml::protobuf
