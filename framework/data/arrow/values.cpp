// One value of a column as JSON.
#include "core/bf16.h"
#include "core/error.h"
#include "data/arrow/rows.h"
#include "data/json_values.h"

namespace dml::arrow {
namespace {

std::int64_t whole_number(std::string_view bytes, std::int64_t i, int width, bool is_signed) {
  switch (width) {
    case 1:
      return is_signed ? std::int64_t{load_at<std::int8_t>(bytes, i)} : load_at<std::uint8_t>(bytes, i);
    case 2:
      return is_signed ? std::int64_t{load_at<std::int16_t>(bytes, i)} : load_at<std::uint16_t>(bytes, i);
    case 4:
      return is_signed ? std::int64_t{load_at<std::int32_t>(bytes, i)} : load_at<std::uint32_t>(bytes, i);
    default:
      return load_at<std::int64_t>(bytes, i);
  }
}

bool bit(std::string_view bits, std::int64_t i) {
  return static_cast<unsigned char>(bits[static_cast<std::size_t>(i / 8)]) >> (i % 8) & 1;
}

}  // namespace

void Rows::write(const Array& array, std::int64_t i, std::string& out) const {
  if (out.size() > TableRows::kMaxBytes)
    throw UserError("{}, row {}: the row has more than {} MiB; split it into several rows", file_.path(), row_ + 1,
                    TableRows::kMaxBytes >> 20);
  const Field& field = *array.field;
  if (i < 0 || i >= array.length) fail(fmt::format("column '{}' ends before its rows", field.name));
  if (field.kind == Kind::null || (!array.validity.empty() && !bit(array.validity, i))) {
    out += "null";
  } else if (field.dictionary) {
    if (!array.dictionary) fail(fmt::format("the dictionary of column '{}' is missing", field.name));
    write(*array.dictionary, whole_number(array.values, i, field.index_bytes, field.index_signed), out);
  } else {
    write_value(array, i, out);
  }
}

std::pair<std::int64_t, std::int64_t> Rows::range(const Array& array, std::int64_t i, std::int64_t most) const {
  const bool wide = array.field->wide;
  const std::int64_t begin = wide ? load_at<std::int64_t>(array.offsets, i) : load_at<std::int32_t>(array.offsets, i);
  const std::int64_t end =
      wide ? load_at<std::int64_t>(array.offsets, i + 1) : load_at<std::int32_t>(array.offsets, i + 1);
  if (begin < 0 || end < begin || end > most)
    fail(fmt::format("column '{}': a value from {} to {} of {}", array.field->name, begin, end, most));
  return {begin, end};
}

std::string_view Rows::text(const Array& array, std::int64_t i) const {
  const auto [begin, end] = range(array, i, std::ssize(array.values));
  return array.values.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

// A view of 16 bytes: a length, then up to twelve bytes of text, or its first four bytes with the buffer and offset of
// the whole.
std::string_view Rows::viewed_text(const Array& array, std::int64_t i) const {
  const std::string_view view = array.offsets.substr(static_cast<std::size_t>(i) * 16, 16);
  const auto size = load_at<std::int32_t>(view, 0);
  if (size >= 0 && size <= 12) return view.substr(4, static_cast<std::size_t>(size));
  const auto number = load_at<std::int32_t>(view, 2), at = load_at<std::int32_t>(view, 3);
  if (size < 0 || number < 0 || number >= std::ssize(array.pieces))
    fail(fmt::format("column '{}': a text outside of its bytes", array.field->name));
  const std::string_view piece = array.pieces[static_cast<std::size_t>(number)];
  if (at < 0 || at > std::ssize(piece) || size > std::ssize(piece) - at)
    fail(fmt::format("column '{}': a text outside of its bytes", array.field->name));
  return piece.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

void Rows::write_value(const Array& array, std::int64_t i, std::string& out) const {
  const Field& field = *array.field;
  switch (field.kind) {
    case Kind::text:
      return put_text(text(array, i), out);
    case Kind::bytes:
      return put_bytes_if_text(text(array, i), out);
    case Kind::text_view:
      return put_text(viewed_text(array, i), out);
    case Kind::bytes_view:
      return put_bytes_if_text(viewed_text(array, i), out);
    case Kind::list: {
      const auto [begin, end] = range(array, i, array.children[0].length);
      return write_range(array.children[0], begin, end, out);
    }
    case Kind::fixed_list:
      return write_range(array.children[0], i * field.size, (i + 1) * field.size, out);
    case Kind::map: {
      const auto [begin, end] = range(array, i, array.children[0].length);
      return write_map(array.children[0], begin, end, out);
    }
    case Kind::structure:
      return write_fields(array, i, out);
    default:
      return write_fixed(array, i, out);
  }
}

void Rows::write_fixed(const Array& array, std::int64_t i, std::string& out) const {
  const Field& field = *array.field;
  const std::string_view all = array.values;
  switch (field.kind) {
    case Kind::boolean:
      out += bit(all, i) ? "true" : "false";
      return;
    case Kind::whole:
      if (field.bytes == 8 && !field.is_signed) out += std::to_string(load_at<std::uint64_t>(all, i));
      else out += std::to_string(whole_number(all, i, field.bytes, field.is_signed));
      return;
    case Kind::date:
      return put_date(load_at<std::int32_t>(all, i), out);
    case Kind::time:
      return put_time(load_at<std::int64_t>(all, i), field.per_second, out);
    case Kind::time_of_day:
      return put_time_of_day(whole_number(all, i, field.bytes, true), field.per_second, out);
    case Kind::real:
      if (field.bytes == 2) return put_number(static_cast<double>(to_float(load_at<f16>(all, i))), out);
      return put_number(field.bytes == 4 ? static_cast<double>(load_at<float>(all, i)) : load_at<double>(all, i), out);
    default:
      break;
  }
  const std::string_view value =
      all.substr(static_cast<std::size_t>(i * field.bytes), static_cast<std::size_t>(field.bytes));
  if (field.kind == Kind::fixed) put_hex(value, false, out);
  else put_decimal(std::string(value.rbegin(), value.rend()), field.scale, out);
}

void Rows::write_map(const Array& entries, std::int64_t begin, std::int64_t end, std::string& out) const {
  out += '{';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ',';
    std::string key;
    write(entries.children[0], i, key);
    if (key.starts_with('"')) out += key;
    else put_text(key, out);
    out += ':';
    write(entries.children[1], i, out);
  }
  out += '}';
}

void Rows::write_fields(const Array& array, std::int64_t i, std::string& out) const {
  if (array.children.empty()) {
    out += "{}";
    return;
  }
  char before = '{';
  for (const Array& child : array.children) {
    out += before;
    before = ',';
    put_text(child.field->name, out);
    out += ':';
    write(child, i, out);
  }
  out += '}';
}

void Rows::write_range(const Array& array, std::int64_t begin, std::int64_t end, std::string& out) const {
  out += '[';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ',';
    write(array, i, out);
  }
  out += ']';
}

}  // namespace dml::arrow
