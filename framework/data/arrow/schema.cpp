#include "data/arrow/schema.h"

#include <fmt/format.h>

#include "core/utf8.h"

namespace dml::arrow {
namespace {

constexpr int kDeepest = 30;
constexpr std::size_t kMaxFields = 10'000;

// Numbers of the union Type.
enum Type {
  kNull = 1,
  kInt,
  kFloat,
  kBinary,
  kUtf8,
  kBool,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kInterval,
  kList,
  kStruct,
  kUnion,
  kFixedBinary,
  kFixedList,
  kMap,
  kDuration,
  kLargeBinary,
  kLargeUtf8,
  kLargeList,
  kRunEnd,
  kBinaryView,
  kUtf8View
};

std::int64_t per_second(std::int16_t unit) {
  constexpr std::int64_t kUnits[] = {1, 1000, 1'000'000, 1'000'000'000};
  if (unit < 0 || unit > 3) throw FlatProblem("a time in an unknown unit");
  return kUnits[unit];
}

int width(std::int32_t bits) {
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    throw FlatProblem(fmt::format("a whole number of {} bits", bits));
  return bits / 8;
}

void read_number(Field& field, int type, const FlatTable& t) {
  if (type == kInt) {
    field.kind = Kind::whole;
    field.bytes = width(t.number<std::int32_t>(0, 0));
    field.is_signed = t.number<std::uint8_t>(1, 0) != 0;
  } else if (type == kFloat) {
    field.kind = Kind::real;
    const auto precision = t.number<std::int16_t>(0, 0);
    if (precision < 0 || precision > 2) throw FlatProblem("a number of unknown precision");
    field.bytes = 2 << precision;
  } else {
    field.kind = Kind::decimal;
    field.scale = t.number<std::int32_t>(1, 0);
    field.bytes = t.number<std::int32_t>(2, 128) / 8;
    if (field.bytes < 4 || field.bytes > 32) throw FlatProblem("a decimal of unknown width");
  }
}

void read_time(Field& field, int type, const FlatTable& t) {
  const bool days = type == kDate && t.number<std::int16_t>(0, 1) == 0;
  field.kind = days ? Kind::date : type == kTime ? Kind::time_of_day : type == kDuration ? Kind::whole : Kind::time;
  if (type == kTimestamp) field.per_second = per_second(t.number<std::int16_t>(0, 0));
  else if (type == kTime) field.per_second = per_second(t.number<std::int16_t>(0, 1));
  else if (type == kDate) field.per_second = 1000;
  field.bytes = days ? 4 : type == kTime ? width(t.number<std::int32_t>(1, 32)) : 8;
}

void read_type(Field& field, int type, const FlatTable& t) {
  switch (type) {
    case kNull:
      field.kind = Kind::null;
      return;
    case kInt:
    case kFloat:
    case kDecimal:
      return read_number(field, type, t);
    case kDate:
    case kTime:
    case kTimestamp:
    case kDuration:
      return read_time(field, type, t);
    case kBinary:
    case kLargeBinary:
      field.kind = Kind::bytes;
      break;
    case kUtf8:
    case kLargeUtf8:
      field.kind = Kind::text;
      break;
    case kBinaryView:
      field.kind = Kind::bytes_view;
      break;
    case kUtf8View:
      field.kind = Kind::text_view;
      break;
    case kBool:
      field.kind = Kind::boolean;
      break;
    case kFixedBinary:
      field.kind = Kind::fixed;
      field.bytes = t.number<std::int32_t>(0, 0);
      break;
    case kFixedList:
      field.kind = Kind::fixed_list;
      field.size = t.number<std::int32_t>(0, 0);
      break;
    case kList:
    case kLargeList:
      field.kind = Kind::list;
      break;
    case kMap:
      field.kind = Kind::map;
      break;
    case kStruct:
      field.kind = Kind::structure;
      break;
    default:
      throw FlatProblem(fmt::format(
          "column '{}' is of a type that dml does not read (union, interval, run-end or list view)", field.name));
  }
  field.wide = type == kLargeBinary || type == kLargeUtf8 || type == kLargeList;
  if (field.bytes < 0 || field.bytes > (1 << 20) || field.size < 0)
    throw FlatProblem(fmt::format("column '{}' has values of a wrong size", field.name));
}

Field read_field(const FlatTable& t, int depth, std::size_t& count) {
  if (depth > kDeepest || ++count > kMaxFields) throw FlatProblem("a schema that is too large or nested too deeply");
  Field field;
  field.name = t.text(0);
  if (find_invalid_utf8(field.name) != std::string::npos || field.name.find('\n') != std::string::npos)
    throw FlatProblem("a column's name is not valid UTF-8 in one line");
  read_type(field, t.number<std::uint8_t>(2, 0), t.table(3));
  if (t.has(4)) {
    const FlatTable dictionary = t.table(4);
    field.dictionary = dictionary.number<std::int64_t>(0, 0);
    if (dictionary.has(1)) {
      const FlatTable index = dictionary.table(1);
      field.index_bytes = width(index.number<std::int32_t>(0, 32));
      field.index_signed = index.number<std::uint8_t>(1, 0) != 0;
    }
  }
  const FlatVector children = t.vector(5);
  for (std::size_t i = 0; i < children.size(); ++i)
    field.children.push_back(read_field(children.table(i), depth + 1, count));
  const bool one = field.kind == Kind::list || field.kind == Kind::fixed_list || field.kind == Kind::map;
  if (one && field.children.size() != 1)
    throw FlatProblem(fmt::format("the list '{}' has {} kinds of elements", field.name, field.children.size()));
  if (field.kind == Kind::map && field.children[0].children.size() != 2)
    throw FlatProblem(fmt::format("the map '{}' has no keys and values", field.name));
  return field;
}

}  // namespace

std::vector<Field> read_schema(const FlatTable& schema) {
  if (schema.number<std::int16_t>(0, 0) != 0) throw FlatProblem("its numbers are big-endian");
  const FlatVector fields = schema.vector(1);
  std::vector<Field> out;
  std::size_t count = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) out.push_back(read_field(fields.table(i), 0, count));
  return out;
}

}  // namespace dml::arrow
