// Values of tables (Parquet, Arrow) as JSON text, appended to a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

void put_text(std::string_view text, std::string& out);
void put_whole(std::int64_t x, std::string& out);
/// Finite numbers; JSON has no others, they become null.
void put_number(double x, std::string& out);
/// "2024-02-29", from days since 1970.
void put_date(std::int64_t days, std::string& out);
/// "2024-02-29T12:00:00.5", from parts of a second since 1970.
void put_time(std::int64_t x, std::int64_t per_second, std::string& out);
/// Big-endian, two's complement, at most 16 bytes (null beyond that); `scale` digits after the point.
void put_decimal(std::string_view bytes, std::int64_t scale, std::string& out);
/// A text where the bytes are UTF-8; null for pictures and the like.
void put_bytes_if_text(std::string_view bytes, std::string& out);
/// Hex digits, with the dashes of a UUID where `uuid`.
void put_hex(std::string_view bytes, bool uuid, std::string& out);

}  // namespace dml
