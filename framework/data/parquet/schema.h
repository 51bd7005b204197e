// The footer of a Parquet file: its schema as a tree, and where the chunks of its columns lie
// (apache/parquet-format, parquet.thrift).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dml::parquet {

enum class Physical { boolean, int32, int64, int96, real, real64, bytes, fixed, none };
enum class Logical {
  none,
  text,
  json,
  list,
  map,
  decimal,
  date,
  time_millis,
  time_micros,
  time_nanos,
  timestamp_millis,
  timestamp_micros,
  timestamp_nanos,
  unsigned_number,
  uuid,
  half,
  other
};

struct Node {
  enum class Repetition { required, optional, repeated };

  std::string name, key;  // key: the name as a JSON key, "\"name\":"
  Repetition repetition = Repetition::required;
  Physical physical = Physical::none;  // of a leaf
  Logical logical = Logical::none;
  std::int64_t length = 0, scale = 0;  // of fixed bytes; of decimals
  int def = 0, rep = 0;                // maximum definition and repetition level
  std::vector<Node> children;
  std::size_t first_leaf = 0, leaves = 0;  // range of columns below this node

  bool is_leaf() const { return children.empty(); }
};

struct Chunk {
  Physical physical = Physical::none;
  std::int64_t codec = 0, values = 0, unpacked = 0, compressed = 0, data_at = 0, dictionary_at = 0;
  std::size_t begin = 0, end = 0;  // bytes of the file
};

struct RowGroupPlace {
  std::int64_t rows = 0;
  std::vector<Chunk> chunks;  // one for each leaf
};

struct Footer {
  Node root;
  std::int64_t rows = 0;
  std::vector<RowGroupPlace> groups;
  std::vector<const Node*> columns;  // the leaves, in order
};

/// `bytes`: the whole file. UserError naming the file and the error.
Footer read_footer(std::string_view bytes, const std::string& path);

}  // namespace dml::parquet
