#include "data/parquet/rows.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/bf16.h"
#include "core/error.h"
#include "core/json.h"
#include "core/utf8.h"

namespace dml::parquet {
namespace {

using Repetition = Node::Repetition;

void put_text(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (u >= 0x20) out += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else out += "\\u00", out += kHex[u >> 4], out += kHex[u & 15];
  }
  out += '"';
}

void put_number(double x, std::string& out) {
  if (!std::isfinite(x)) out += "null";  // JSON has no such numbers
  else if (x == std::trunc(x) && std::abs(x) < 1e15) out += fmt::format("{:.1f}", x);
  else out += fmt::format("{}", x);
}

// Days, or parts of a second, since 1970.
void put_time(std::int64_t x, std::int64_t per_second, std::string& out) {
  using namespace std::chrono;
  const std::int64_t day_length = per_second > 0 ? 86400 * per_second : 1;
  const std::int64_t day = x >= 0 ? x / day_length : -((-x + day_length - 1) / day_length), rest = x - day * day_length;
  if (std::abs(day) > 3'000'000) {
    out += std::to_string(x);
    return;
  }
  const year_month_day date{sys_days{days{day}}};
  out += fmt::format("\"{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
  if (per_second > 0) {
    const std::int64_t second = rest / per_second;
    out += fmt::format("T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    if (const auto part = rest % per_second; part > 0)
      out += fmt::format(".{:06}", per_second > 1'000'000 ? part / 1000 : part * (1'000'000 / per_second));
  }
  out += '"';
}

__extension__ typedef unsigned __int128 Wide;

// Big-endian, two's complement.
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
  for (; x > 0 || digits.empty(); x /= 10) digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(x % 10)));
  if (scale > 0) {
    const auto places = static_cast<std::size_t>(scale);
    if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
    digits.insert(digits.size() - places, ".");
  }
  out += (negative ? "-" : "") + digits;
}

void put_bytes(std::string_view bytes, const Node& node, std::string& out) {
  if (node.logical == Logical::decimal) return put_decimal(bytes, node.scale, out);
  if (node.logical == Logical::half && bytes.size() == 2) {
    f16 h;
    std::memcpy(&h, bytes.data(), 2);
    return put_number(to_float(h), out);
  }
  const bool text = node.logical == Logical::text || node.logical == Logical::json;
  if (text || (node.physical == Physical::bytes && find_invalid_utf8(bytes) == std::string::npos)) return put_text(bytes, out);
  if (node.physical == Physical::bytes) {  // pictures and the like: no text
    out += "null";
    return;
  }
  out += '"';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (node.logical == Logical::uuid && (i == 4 || i == 6 || i == 8 || i == 10)) out += '-';
    out += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  out += '"';
}

}  // namespace

Rows::Rows(const std::string& path) : file_(path), footer_(read_footer(file_.text(), file_.path())) {}

void Rows::open_group() {
  const RowGroupPlace& place = footer_.groups[group_];
  columns_.clear();
  for (std::size_t c = 0; c < place.chunks.size(); ++c)
    columns_.emplace_back(file_.text(), place.chunks[c], *footer_.columns[c],
                          fmt::format("{}: row group {}, column '{}'", file_.path(), group_,
                                      escape_controls(footer_.columns[c]->name).substr(0, 60)));
  in_group_ = 0;
  open_ = true;
}

bool Rows::next(std::string& row) {
  row.clear();
  while (!open_ || in_group_ == footer_.groups[group_].rows) {
    if (open_) {
      for (Column& c : columns_)
        if (c.more()) c.fail("it has more values than its row group has rows");
      ++group_;
      open_ = false;
    }
    if (group_ == footer_.groups.size()) return false;
    open_group();
  }
  for (Column& c : columns_) {
    if (!c.more()) c.fail(fmt::format("it ends after {} of {} rows", in_group_, footer_.groups[group_].rows));
    if (c.rep() != 0) c.fail("a row begins inside another");
  }
  write_fields(footer_.root, row);
  if (row.size() > kMostBytes) too_large();
  ++in_group_, ++row_;
  return true;
}

void Rows::write_fields(const Node& node, std::string& out) {
  char before = '{';
  for (const Node& child : node.children) {
    out += before;
    before = ',';
    put_text(child.name, out);
    out += ':';
    write(child, out);
  }
  out += '}';
}

void Rows::too_large() const {
  throw UserError("{}, row {}: the row has more than {} MiB; split it into several rows", file_.path(), row_ + 1, kMostBytes >> 20);
}

// Whether the first leaf's entry says that the node is there; the other leaves must agree.
bool Rows::is_there(const Node& node) {
  bool there = false;
  for (std::size_t i = 0; i < node.leaves; ++i) {
    Column& c = columns_[node.first_leaf + i];
    if (!c.more()) c.fail("it ends inside a row");
    const bool here = c.def() >= node.def;
    if (i > 0 && here != there) c.fail(fmt::format("the columns of '{}' contradict each other", node.name));
    there = here;
  }
  return there;
}

// Whether another element of a repeated node follows.
bool Rows::goes_on(const Node& node) {
  bool on = false;
  for (std::size_t i = 0; i < node.leaves; ++i) {
    Column& c = columns_[node.first_leaf + i];
    const bool here = c.more() && c.rep() == node.rep;
    if (i > 0 && here != on) c.fail(fmt::format("the columns of '{}' have different lengths", node.name));
    on = here;
  }
  return on;
}

void Rows::pass_over(const Node& node) {
  for (std::size_t i = 0; i < node.leaves; ++i) columns_[node.first_leaf + i].advance();
}

void Rows::write(const Node& node, std::string& out) {
  if (out.size() > kMostBytes) too_large();
  if (node.repetition == Repetition::repeated) return write_repeated(node, nullptr, out);
  if (node.repetition == Repetition::optional && !is_there(node)) {
    pass_over(node);
    out += "null";
    return;
  }
  if (node.is_leaf()) return write_value(columns_[node.first_leaf], out);
  const bool wraps = node.children.size() == 1 && node.children[0].repetition == Repetition::repeated;
  if (wraps && node.logical == Logical::map && node.children[0].children.size() == 2) return write_map(node, out);
  if (wraps && (node.logical == Logical::list || node.logical == Logical::map)) return write_repeated(node.children[0], &node, out);
  write_fields(node, out);
}

// `list`: the annotated group around it, whose repeated group may be no more than a wrapper of the element.
void Rows::write_repeated(const Node& node, const Node* list, std::string& out) {
  const bool wrapper = list && node.children.size() == 1 && node.children[0].repetition != Repetition::repeated &&
                       node.name != "array" && node.name != list->name + "_tuple";
  out += '[';
  if (!is_there(node)) {
    pass_over(node);
  } else {
    bool first = true;
    do {
      if (!first) out += ',';
      first = false;
      if (out.size() > kMostBytes) too_large();
      if (wrapper) write(node.children[0], out);
      else if (node.is_leaf()) write_value(columns_[node.first_leaf], out);
      else write_fields(node, out);
    } while (goes_on(node));
  }
  out += ']';
}

void Rows::write_map(const Node& map, std::string& out) {
  const Node &node = map.children[0], &key = node.children[0];
  out += '{';
  if (!is_there(node)) {
    pass_over(node);
  } else {
    bool first = true;
    do {
      if (!first) out += ',';
      first = false;
      std::string name;
      write(key, name);
      if (!name.starts_with('"')) put_text(name, out);
      else out += name;
      out += ':';
      write(node.children[1], out);
    } while (goes_on(node));
  }
  out += '}';
}

void Rows::write_value(Column& column, std::string& out) {
  if (!column.more()) column.fail("it ends inside a row");
  const Node& node = column.node();
  if (!column.has_value()) column.fail("a required value is missing");
  const Value& v = column.value();
  switch (node.physical) {
    case Physical::boolean:
      out += v.whole ? "true" : "false";
      break;
    case Physical::int32:
    case Physical::int64:
      if (node.logical == Logical::date) put_time(v.whole, 0, out);
      else if (node.logical == Logical::timestamp_millis) put_time(v.whole, 1000, out);
      else if (node.logical == Logical::timestamp_micros) put_time(v.whole, 1'000'000, out);
      else if (node.logical == Logical::timestamp_nanos) put_time(v.whole, 1'000'000'000, out);
      else if (node.logical == Logical::unsigned_number)
        out += node.physical == Physical::int32 ? std::to_string(static_cast<std::uint32_t>(v.whole))
                                                : std::to_string(static_cast<std::uint64_t>(v.whole));
      else if (node.logical == Logical::decimal) {
        const std::uint64_t turned = __builtin_bswap64(static_cast<std::uint64_t>(v.whole));
        put_decimal({reinterpret_cast<const char*>(&turned), 8}, node.scale, out);
      } else out += std::to_string(v.whole);
      break;
    case Physical::real:
    case Physical::real64:
      put_number(v.real, out);
      break;
    case Physical::int96: {  // nanoseconds of a Julian day
      std::int64_t nanos;
      std::int32_t day;
      std::memcpy(&nanos, v.bytes.data(), 8);
      std::memcpy(&day, v.bytes.data() + 8, 4);
      put_time((static_cast<std::int64_t>(day) - 2440588) * 86'400'000'000 + nanos / 1000, 1'000'000, out);
      break;
    }
    default:
      put_bytes(v.bytes, node, out);
  }
  column.advance();
}

}  // namespace dml::parquet
