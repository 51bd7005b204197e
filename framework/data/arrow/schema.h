// The columns of an Arrow file: their types as a tree (apache/arrow, format/Schema.fbs).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/arrow/flat.h"

namespace dml::arrow {

/// The types that dml converts to JSON; `other` is rejected with the type's name.
enum class Kind {
  null,
  whole,
  real,
  boolean,
  bytes,
  text,
  bytes_view,
  text_view,
  fixed,
  decimal,
  date,
  time,
  time_of_day,
  list,
  fixed_list,
  structure,
  map,
  other
};

struct Field {
  std::string name;
  Kind kind = Kind::other;
  bool wide = false;            // offsets of 64 bits
  bool is_signed = true;        // whole numbers
  int bytes = 0;                // of a value, or of a dictionary index; 0 if the size varies
  std::int64_t size = 0;        // values of a list of fixed size
  std::int64_t per_second = 0;  // of times and times of day
  std::int64_t scale = 0;       // of decimals
  std::vector<Field> children;
  std::optional<std::int64_t> dictionary;  // id of the dictionary; the column holds indices into it
  int index_bytes = 4;
  bool index_signed = true;
};

/// Reads the fields of a schema. FlatProblem when it is malformed.
std::vector<Field> read_schema(const FlatTable& schema);

}  // namespace dml::arrow
