#include "core/protobuf.h"

#include <bit>

namespace dml::protobuf {
namespace {

static_assert(std::endian::native == std::endian::little);
enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

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

}  // namespace dml::protobuf
