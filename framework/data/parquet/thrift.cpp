#include "data/parquet/thrift.h"

#include "core/error.h"
#include "core/varint.h"

namespace dml::parquet {

void Thrift::fail_with(const char* text, std::initializer_list<std::int64_t> numbers) const {
  std::string said;
  auto next = numbers.begin();
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t brace = rest.find("{}");
    said += rest.substr(0, brace);
    if (brace == rest.npos) break;
    said += std::to_string(next == numbers.end() ? 0 : *next++);
    rest.remove_prefix(brace + 2);
  }
  throw UserError("{}, byte {}: {}", where_, at_, said);
}

std::uint8_t Thrift::byte() {
  if (at_ >= bytes_.size()) fail("it ends too early");
  return static_cast<std::uint8_t>(bytes_[at_++]);
}

std::uint64_t Thrift::varint() {
  const auto value = read_varint([&] { return byte(); });
  if (!value) fail("a number of more than 10 bytes");
  return *value;
}

std::int64_t Thrift::zigzag() { return static_cast<std::int64_t>(unzigzag(varint())); }

std::int64_t Thrift::integer(Type type) {
  if (type == i8) return static_cast<std::int8_t>(byte());
  if (type != i16 && type != i32 && type != i64) fail("a whole number is expected, type {} is there", type);
  return zigzag();
}

bool Thrift::truth(Type type) {
  if (type != yes && type != no) fail("true or false is expected, type {} is there", type);
  return type == yes;
}

std::string_view Thrift::text(Type type) {
  if (type != binary) fail("a text is expected, type {} is there", type);
  const std::uint64_t size = varint();
  if (size > bytes_.size() - at_) fail("a text of {} bytes, {} are left", size, bytes_.size() - at_);
  at_ += size;
  return bytes_.substr(at_ - size, size);
}

void Thrift::skip(Type type, bool in_list) {
  switch (type) {
    case yes:
    case no:
      if (in_list) byte();
      return;
    case i8:
      byte();
      return;
    case i16:
    case i32:
    case i64:
      varint();
      return;
    case real:
      for (int i = 0; i < 8; ++i) byte();
      return;
    case binary:
      text(type);
      return;
    case list:
    case set:
      if (++depth_ > kDepth) fail("nested too deeply");
      elements(type, [&](Type element) { skip(element, true); });
      --depth_;
      return;
    case map: {
      const std::uint64_t count = varint();
      if (count == 0) return;
      if (count > bytes_.size() - at_) fail("a map of {} entries", count);
      if (++depth_ > kDepth) fail("nested too deeply");
      const auto kinds = byte();
      for (std::uint64_t i = 0; i < count; ++i) {
        skip(static_cast<Type>(kinds >> 4), true);
        skip(static_cast<Type>(kinds & 15), true);
      }
      --depth_;
      return;
    }
    case structure:
      fields([&](int, Type inner) { skip(inner); });
      return;
    default:
      fail("a value of type {}", type);
  }
}

}  // namespace dml::parquet
