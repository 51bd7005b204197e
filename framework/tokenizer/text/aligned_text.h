// Text between the user's input and the model, with the origin of every byte.
//
// Normalizers rewrite text, but offsets of ids refer to the input. origin(i) is the input offset of byte i, monotone;
// origin(size()) is the end. Text that was not rewritten is a view of the input without a table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace dml {

class AlignedText {
 public:
  AlignedText() = default;
  /// A view of the input that starts at its byte `first`.
  AlignedText(std::string_view window, std::uint32_t first) : view_(window), first_(first) {}
  AlignedText(const AlignedText&) = delete;
  AlignedText& operator=(const AlignedText&) = delete;

  std::string_view bytes() const { return view_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(view_.size()); }
  std::uint32_t origin(std::uint32_t i) const { return map_.empty() ? first_ + i : map_[i]; }
  ByteRange origin(ByteRange r) const { return {origin(r.begin), origin(r.end)}; }
  /// Becomes a view of another text, with its origins.
  void assign(const AlignedText& from, ByteRange window) {
    view_ = from.view_.substr(window.begin, window.end - window.begin);
    first_ = from.first_ + window.begin;
    map_.clear();
    if (!from.map_.empty()) map_.assign(from.map_.begin() + window.begin, from.map_.begin() + window.end + 1);
  }

  /// Builds the rewritten text sequentially; finish() replaces the original text.
  class Rewriter {
   public:
    explicit Rewriter(AlignedText& text) : text_(text) {
      bytes_.reserve(text.size() + text.size() / 4 + 16);
      map_.reserve(bytes_.capacity() + 1);
    }
    /// Appends bytes that originate from text offset `from`.
    void put(std::string_view bytes, std::uint32_t from) {
      bytes_.append(bytes);
      map_.insert(map_.end(), bytes.size(), text_.origin(from));
    }
    /// Appends bytes [first, last) of the text unchanged.
    void keep(std::uint32_t first, std::uint32_t last) {
      bytes_.append(text_.view_.substr(first, last - first));
      for (std::uint32_t i = first; i < last; ++i) map_.push_back(text_.origin(i));
    }
    std::uint32_t size() const { return static_cast<std::uint32_t>(bytes_.size()); }
    std::string_view bytes() const { return bytes_; }
    void truncate(std::size_t size) {
      bytes_.resize(size);
      map_.resize(size);
    }
    void finish() {
      map_.push_back(text_.origin(text_.size()));
      text_.storage_ = std::move(bytes_);
      text_.view_ = text_.storage_;
      text_.map_ = std::move(map_);
    }

   private:
    AlignedText& text_;
    std::string bytes_;
    std::vector<std::uint32_t> map_;
  };

 private:
  std::string_view view_;
  std::uint32_t first_ = 0;
  std::string storage_;
  std::vector<std::uint32_t> map_;
};

}  // namespace dml
