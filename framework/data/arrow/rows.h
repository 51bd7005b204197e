// The rows of an Arrow file as JSON texts: the IPC file format (.arrow, Feather 2) and the stream format (the cache of
// Hugging Face's datasets), message by message (apache/arrow, format/Message.fbs and docs/format/Columnar.rst).
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files.h"
#include "data/arrow/schema.h"
#include "data/table_rows.h"

namespace dml::arrow {

/// Number i of an array of T.
template <class T>
T load_at(std::string_view bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

/// A column of a batch: views into the file or into decompressed buffers.
struct Array {
  const Field* field = nullptr;
  std::int64_t length = 0;
  std::string_view validity;  // empty: no value is null
  std::string_view offsets;   // of lists and texts; views of text_view
  std::string_view values;
  std::vector<std::string_view> pieces;  // of text_view
  std::vector<Array> children;
  const Array* dictionary = nullptr;
};

class Rows : public TableRows {
 public:
  /// UserError when the file is not an Arrow file, or uses an unsupported type or compression.
  explicit Rows(const std::string& path);
  bool next(std::string& row) override;

 private:
  class Batch;
  void read_footer();
  void take_schema(const FlatTable& schema);
  /// Loads the next message; false at the end.
  bool load();
  void add_coded(const Field& field);
  void read_batch(const FlatTable& header, std::string_view body, const std::vector<const Field*>& fields,
                  std::vector<Array>& out, std::deque<std::string>& unpacked) const;
  void read_dictionary(const FlatTable& header, std::string_view body);
  void write(const Array& array, std::int64_t i, std::string& out) const;
  void write_value(const Array& array, std::int64_t i, std::string& out) const;
  void write_fixed(const Array& array, std::int64_t i, std::string& out) const;
  void write_map(const Array& entries, std::int64_t begin, std::int64_t end, std::string& out) const;
  /// The range [begin, end) of value i, by `offsets`; UserError beyond `most`.
  std::pair<std::int64_t, std::int64_t> range(const Array& array, std::int64_t i, std::int64_t most) const;
  std::string_view text(const Array& array, std::int64_t i) const;
  std::string_view viewed_text(const Array& array, std::int64_t i) const;
  void write_fields(const Array& array, std::int64_t i, std::string& out) const;
  void write_range(const Array& array, std::int64_t begin, std::int64_t end, std::string& out) const;
  [[noreturn]] void fail(std::string_view what) const;

  struct Dictionary {
    std::vector<Array> values;  // one column
    std::deque<std::string> unpacked;
  };

  MappedFile file_;
  std::size_t at_ = 0;
  bool ended_ = false;
  std::deque<std::size_t> blocks_;  // of the file format: offsets of its messages, dictionaries first
  bool is_file_ = false;
  std::vector<Field> fields_;
  std::vector<const Field*> columns_;
  std::map<std::int64_t, Field> coded_;  // the value type of each dictionary, by its id
  std::map<std::int64_t, Dictionary> dictionaries_;
  std::vector<Array> batch_;
  std::deque<std::string> unpacked_;  // buffers of the batch
  std::int64_t length_ = 0, in_batch_ = 0, row_ = 0;
};

}  // namespace dml::arrow
