#include "data/parquet/value_json.h"

#include <cstdlib>
#include <cstring>

#include "core/bf16.h"
#include "data/json_values.h"

namespace dml::parquet {
namespace {

void put_bytes(std::string_view bytes, const Node& node, std::string& out) {
  if (node.logical == Logical::decimal) return put_decimal(bytes, node.scale, out);
  if (node.logical == Logical::half && bytes.size() == 2) {
    f16 h;
    std::memcpy(&h, bytes.data(), 2);
    return put_number(to_float(h), out);
  }
  if (node.logical == Logical::text || node.logical == Logical::json) put_text(bytes, out);
  else if (node.physical == Physical::bytes) put_bytes_if_text(bytes, out);
  else put_hex(bytes, node.logical == Logical::uuid, out);
}

// Whole numbers, and what is stored as one.
void put_integer(std::int64_t x, const Node& node, std::string& out) {
  switch (node.logical) {
    case Logical::date:
      return put_date(x, out);
    case Logical::timestamp_millis:
      return put_time(x, 1000, out);
    case Logical::timestamp_micros:
      return put_time(x, 1'000'000, out);
    case Logical::timestamp_nanos:
      return put_time(x, 1'000'000'000, out);
    case Logical::time_millis:
      return put_time_of_day(x, 1000, out);
    case Logical::time_micros:
      return put_time_of_day(x, 1'000'000, out);
    case Logical::time_nanos:
      return put_time_of_day(x, 1'000'000'000, out);
    case Logical::decimal: {
      const std::uint64_t turned = __builtin_bswap64(static_cast<std::uint64_t>(x));
      return put_decimal({reinterpret_cast<const char*>(&turned), 8}, node.scale, out);
    }
    case Logical::unsigned_number:
      if (node.physical == Physical::int32) put_int(static_cast<std::uint32_t>(x), out);
      else out += std::to_string(static_cast<std::uint64_t>(x));
      return;
    default:
      put_int(x, out);
  }
}

// Nanoseconds of a Julian day; null for a day whose time does not fit into 64 bits.
void put_int96(std::string_view bytes, std::string& out) {
  constexpr std::int64_t kJulian1970 = 2440588, kMicrosOfDay = 86'400'000'000, kMostDays = 100'000'000;
  std::int64_t nanos;
  std::int32_t day;
  std::memcpy(&nanos, bytes.data(), 8);
  std::memcpy(&day, bytes.data() + 8, 4);
  const std::int64_t since_1970 = day - kJulian1970;
  if (std::abs(since_1970) > kMostDays) out += "null";
  else put_time(since_1970 * kMicrosOfDay + nanos / 1000, 1'000'000, out);
}

}  // namespace

void put_value(const Value& value, const Node& node, std::string& out) {
  switch (node.physical) {
    case Physical::boolean:
      out += value.whole ? "true" : "false";
      return;
    case Physical::int32:
    case Physical::int64:
      return put_integer(value.whole, node, out);
    case Physical::real:
    case Physical::real64:
      return put_number(value.real, out);
    case Physical::int96:
      return put_int96(value.bytes, out);
    default:
      return put_bytes(value.bytes, node, out);
  }
}

}  // namespace dml::parquet
