// Reader for Thrift's compact protocol, the format of Parquet's footer and page headers. Every length is checked before
// use; unknown fields are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml::parquet {

class Thrift {
 public:
  enum Type { stop, yes, no, i8, i16, i32, i64, real, binary, list, set, map, structure };

  /// `where`: prefix of error messages.
  Thrift(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  /// Calls field(id, type) for every field of a struct; the callback must read the value or skip() it.
  template <class F>
  void fields(F&& field) {
    if (++depth_ > kDepth) fail("nested too deeply");
    std::int64_t id = 0;
    while (true) {
      const auto head = byte();
      const auto type = static_cast<Type>(head & 15);
      if (type == stop) break;
      id = head >> 4 ? id + (head >> 4) : zigzag();
      if (id != static_cast<std::int16_t>(id)) fail("a field with the number {}", id);
      if (type > structure) fail("a field of type {}", static_cast<int>(type));
      field(static_cast<int>(id), type);
    }
    --depth_;
  }
  /// Calls element(type) for each element of a list.
  template <class F>
  void elements(Type type, F&& element) {
    if (type != list && type != set) fail("a list is expected");
    const auto head = byte();
    std::uint64_t count = head >> 4;
    if (count == 15) count = varint();
    if (count > bytes_.size() - at_) fail("a list of {} elements in {} bytes", count, bytes_.size() - at_);
    const auto kind = static_cast<Type>(head & 15);
    for (std::uint64_t i = 0; i < count; ++i) element(kind);
  }
  std::int64_t integer(Type type);
  bool truth(Type type);
  std::string_view text(Type type);
  void skip(Type type, bool in_list = false);

  std::size_t position() const { return at_; }
  template <class... Args>
  [[noreturn]] void fail(const char* text, Args... args) const {
    fail_with(text, {static_cast<std::int64_t>(args)...});
  }

 private:
  static constexpr int kDepth = 16;
  [[noreturn]] void fail_with(const char* text, std::initializer_list<std::int64_t> numbers) const;
  std::uint8_t byte();
  std::uint64_t varint();
  std::int64_t zigzag();

  std::string_view bytes_;
  std::string where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace dml::parquet
