// Reads the entries of one column of one row group, page after page: levels, and a value if it is not null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/codecs.h"
#include "data/parquet/encodings.h"
#include "data/parquet/schema.h"

namespace dml::parquet {

class Column {
 public:
  static constexpr std::size_t kMaxValues = 1u << 22;               // of a page
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;  // of a page, unpacked

  /// `where`: "FILE: row group 0, column 'text'".
  Column(std::string_view file, const Chunk& chunk, const Node& node, std::string where)
      : file_(file), chunk_(&chunk), node_(&node), where_(std::move(where)), at_(chunk.begin), left_(chunk.values) {}

  /// Whether there is another entry; loads its page if necessary.
  bool more() { return entry_ < entries_ || load_next(); }
  /// Repetition and definition level of the entry that more() found.
  int rep() const { return reps_.empty() ? 0 : static_cast<int>(reps_[entry_]); }
  int def() const { return defs_.empty() ? 0 : static_cast<int>(defs_[entry_]); }
  bool has_value() const { return def() == node_->def; }
  /// Appends the value as JSON.
  void write_value(std::string& out) const;
  void advance() {
    value_ += has_value();
    ++entry_;
  }
  const Node& node() const { return *node_; }
  [[noreturn]] void fail(std::string_view what) const;

 private:
  struct Header {
    std::int64_t type = -1, unpacked = 0, packed = 0, crc = -1, values = 0;
    Encoding encoding = Encoding::plain, def_encoding = Encoding::rle, rep_encoding = Encoding::rle;
    std::int64_t def_bytes = 0, rep_bytes = 0;
    bool has_crc = false, is_packed = true;
  };
  Codec codec() const {
    return chunk_->codec >= 0 && chunk_->codec < 8 ? static_cast<Codec>(chunk_->codec) : Codec::lzo;
  }
  Header read_header();
  bool load_next();
  void load();
  void load_dictionary(const Header& header, std::string_view body);
  void write_dictionary();
  void load_data(const Header& header, std::string_view body);
  std::string_view unpacked(Codec codec, std::string_view packed, std::size_t size);
  void read_levels(const Header& header, std::string_view& rest, std::string_view& levels, bool second);

  std::string_view file_;
  const Chunk* chunk_;
  const Node* node_;
  std::string where_;
  std::size_t at_;
  std::int64_t left_;  // entries of the chunk not loaded yet
  std::string page_, store_, dictionary_page_, dictionary_store_;
  bool dictionary_is_json_ = false;  // the dictionary's values are stored as JSON text
  bool from_dictionary_ = false;     // whether this page's values are in the dictionary
  std::vector<Value> dictionary_, values_;
  std::vector<std::uint32_t> reps_, defs_;
  std::size_t entries_ = 0, entry_ = 0, value_ = 0;
};

}  // namespace dml::parquet
