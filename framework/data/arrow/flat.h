// FlatBuffers reader: tables whose fields are found through a vtable. Every offset is checked before it is used.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace dml::arrow {

class FlatProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FlatTable;

/// A vector of tables, or of fixed structs.
class FlatVector {
 public:
  FlatVector() = default;
  FlatVector(std::string_view bytes, std::size_t at, std::size_t element);
  std::size_t size() const { return size_; }
  FlatTable table(std::size_t i) const;
  /// The number at `offset` of struct i.
  std::int64_t number(std::size_t i, std::size_t offset) const;

 private:
  std::string_view bytes_;
  std::size_t at_ = 0, size_ = 0, element_ = 4;
};

class FlatTable {
 public:
  /// The root table of a buffer.
  explicit FlatTable(std::string_view bytes);
  FlatTable(std::string_view bytes, std::size_t at);

  /// A field by its number in the schema; `fallback` if it is absent.
  template <class T>
  T number(int field, T fallback) const {
    const std::size_t place = find(field, sizeof(T));
    T value = fallback;
    if (place > 0) std::memcpy(&value, bytes_.data() + place, sizeof(T));
    return value;
  }
  bool has(int field) const { return find(field, 1) > 0; }
  std::string_view text(int field) const;
  FlatTable table(int field) const;
  /// `element`: bytes of one element; 4 for tables.
  FlatVector vector(int field, std::size_t element = 4) const;

 private:
  std::size_t find(int field, std::size_t size) const;  // 0 if it is absent
  std::size_t follow(int field) const;

  std::string_view bytes_;
  std::size_t at_ = 0, offsets_ = 0, offsets_size_ = 0, size_ = 0;
};

}  // namespace dml::arrow
