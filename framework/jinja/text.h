// Strings that record the origin of their bytes. A Text is UTF-8 bytes plus runs [begin, end) → mark: bytes that came
// from a marked input (such as a message's content). Every operation that builds a text from others propagates the
// runs, so one render yields the origin of every byte of the output. A byte without a run comes from the template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dml::jinja {

/// 0 = none. The caller chooses numbers below kGenerated; that bit is set on everything inside {% generation %}.
using Mark = std::uint32_t;
inline constexpr Mark kGenerated = Mark{1} << 31;

struct Run {
  std::size_t begin = 0, end = 0;
  Mark mark = 0;
  bool operator==(const Run&) const = default;
};

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Mark mark = 0);
  Text(std::string_view bytes) : bytes_(bytes) {}
  Text(const char* bytes) : bytes_(bytes) {}

  const std::string& str() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Bytes of memory in use.
  std::size_t capacity() const { return bytes_.capacity() + runs_.capacity() * sizeof(Run); }
  /// Sorted, disjoint, not empty; adjacent runs with the same mark are merged.
  const std::vector<Run>& runs() const { return runs_; }

  Text& append(std::string_view bytes, Mark mark = 0);
  Text& append(const char* bytes, Mark mark = 0) { return append(std::string_view(bytes), mark); }
  Text& append(const std::string& bytes, Mark mark = 0) { return append(std::string_view(bytes), mark); }
  Text& append(const Text& other) { return append(other, 0, other.size()); }
  /// Bytes [begin, end) of the other text.
  Text& append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end = std::string::npos) const;
  /// The mark of one byte.
  Mark mark_at(std::size_t byte) const;
  /// Sets a bit in the marks of all bytes.
  Text flagged(Mark bit) const;

  bool operator==(const Text& other) const { return bytes_ == other.bytes_; }

 private:
  void add_run(std::size_t begin, std::size_t end, Mark mark);
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace dml::jinja
