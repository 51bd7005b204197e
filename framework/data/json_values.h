// Appends values of tables (Parquet, Arrow) to a row as JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

void put_text(std::string_view text, std::string& out);
void put_int(std::int64_t x, std::string& out);
/// Appends a number; null if it is not finite.
void put_number(double x, std::string& out);
/// Appends "2024-02-29" for days since 1970.
void put_date(std::int64_t days, std::string& out);
/// Appends "2024-02-29T12:00:00.500000" for fractions of a second since 1970.
void put_time(std::int64_t x, std::int64_t per_second, std::string& out);
/// Appends "12:00:00.500000" for fractions of a second since midnight; a number beyond the day.
void put_time_of_day(std::int64_t x, std::int64_t per_second, std::string& out);
/// Appends a big-endian two's-complement number of at most 16 bytes (null beyond that) with `scale` digits after the
/// point, as a string: a JSON number would be rounded when it is read, and lose the zeros at its end.
void put_decimal(std::string_view bytes, std::int64_t scale, std::string& out);
/// Appends a string if the bytes are UTF-8, else null (as for images).
void put_bytes_if_text(std::string_view bytes, std::string& out);
/// Appends hex digits, with the dashes of a UUID if `uuid`.
void put_hex(std::string_view bytes, bool uuid, std::string& out);

}  // namespace dml
