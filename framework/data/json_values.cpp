#include "data/json_values.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "core/utf8.h"
#include "data/row_json.h"

namespace dml {
namespace {

constexpr std::int64_t kSecondsOfDay = 86400;

bool is_usual_day(std::int64_t day) { return day > -3'000'000 && day < 3'000'000; }

std::string date_text(std::int64_t day) {
  using namespace std::chrono;
  const year_month_day date{sys_days{days{day}}};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

// "12:00:00", with six digits of the second where it has microseconds.
std::string clock_text(std::int64_t of_day, std::int64_t per_second) {
  const std::int64_t second = of_day / per_second, part = of_day % per_second;
  std::string out = fmt::format("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
  const std::int64_t micros = per_second > 1'000'000 ? part / 1000 : part * (1'000'000 / per_second);
  if (micros > 0) out += fmt::format(".{:06}", micros);
  return out;
}

__extension__ typedef unsigned __int128 Wide;

}  // namespace

void put_text(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  const char *at = text.data(), *const end = at + text.size();
  out += '"';
  while (true) {
    const char* const plain = end_of_plain(at, end);
    out.append(at, plain);
    if (plain == end) break;
    const auto u = static_cast<unsigned char>(*plain);
    if (u == '"' || u == '\\') out += '\\', out += *plain;
    else if (u == '\n') out += "\\n";
    else if (u == '\t') out += "\\t";
    else if (u == '\r') out += "\\r";
    else out += "\\u00", out += kHex[u >> 4], out += kHex[u & 15];
    at = plain + 1;
  }
  out += '"';
}

void put_int(std::int64_t x, std::string& out) {
  char digits[24];
  out.append(digits, std::to_chars(digits, std::end(digits), x).ptr);
}

void put_number(double x, std::string& out) {
  constexpr double kExact = 1e15;  // whole numbers below it have no exponent
  if (!std::isfinite(x)) {
    out += "null";  // JSON has no such numbers
  } else if (x == std::trunc(x) && std::abs(x) < kExact) {
    if (x == 0 && std::signbit(x)) out += '-';
    put_int(static_cast<std::int64_t>(x), out);
    out += ".0";
  } else {
    char digits[40];
    out.append(digits, fmt::format_to(digits, "{}", x));
  }
}

void put_date(std::int64_t days, std::string& out) {
  if (!is_usual_day(days)) {
    put_int(days, out);
    return;
  }
  out += '"' + date_text(days) + '"';
}

void put_time(std::int64_t x, std::int64_t per_second, std::string& out) {
  const std::int64_t of_day = kSecondsOfDay * per_second;
  std::int64_t day = x / of_day, rest = x % of_day;
  if (rest < 0) rest += of_day, --day;
  if (!is_usual_day(day)) {
    put_int(x, out);
    return;
  }
  out += fmt::format("\"{}T{}\"", date_text(day), clock_text(rest, per_second));
}

void put_time_of_day(std::int64_t x, std::int64_t per_second, std::string& out) {
  if (x < 0 || x >= kSecondsOfDay * per_second) put_int(x, out);
  else out += '"' + clock_text(x, per_second) + '"';
}

void put_decimal(std::string_view bytes, std::int64_t scale, std::string& out) {
  if (bytes.size() > 16 || scale < 0 || scale > 38) {
    out += "null";
    return;
  }
  const bool negative = !bytes.empty() && static_cast<signed char>(bytes[0]) < 0;
  Wide x = negative ? ~Wide{0} : 0;
  for (char c : bytes) x = x << 8 | static_cast<unsigned char>(c);
  if (negative) x = ~x + 1;
  std::string digits;
  for (; x > 0 || digits.empty(); x /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(x % 10)));
  if (scale > 0) {
    const auto places = static_cast<std::size_t>(scale);
    if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
    digits.insert(digits.size() - places, ".");
  }
  out += fmt::format("\"{}{}\"", negative ? "-" : "", digits);
}

void put_bytes_if_text(std::string_view bytes, std::string& out) {
  if (find_invalid_utf8(bytes) == std::string::npos) put_text(bytes, out);
  else out += "null";
}

void put_hex(std::string_view bytes, bool uuid, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (uuid && (i == 4 || i == 6 || i == 8 || i == 10)) out += '-';
    out += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  out += '"';
}

}  // namespace dml
