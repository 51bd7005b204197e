// The lines of a text in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "core/text.h"

namespace dml {

/// A line without its end, "\n" or "\r\n".
struct Line {
  std::size_t number;  // from 1
  std::string_view text;

  bool blank() const { return trim(text).empty(); }
};

/// for (const Line line : Lines(text)): what follows the last "\n" is a line, unless it is empty.
class Lines {
 public:
  class Iterator {
   public:
    using value_type = Line;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(std::string_view text) : rest_(text) { find_end(); }
    Line operator*() const {
      const std::string_view text = rest_.substr(0, size_);
      return {number_, text.ends_with('\r') ? text.substr(0, size_ - 1) : text};
    }
    Iterator& operator++() {
      rest_.remove_prefix(std::min(size_ + 1, rest_.size()));
      ++number_;
      find_end();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return rest_.empty(); }

   private:
    void find_end() { size_ = std::min(rest_.find('\n'), rest_.size()); }

    std::string_view rest_;
    std::size_t size_ = 0, number_ = 1;
  };

  explicit Lines(std::string_view text) : text_(text) {}
  explicit Lines(std::string&& text) = delete;  // the text must outlive the loop
  Iterator begin() const { return Iterator(text_); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::string_view text_;
};

}  // namespace dml
