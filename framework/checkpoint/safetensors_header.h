// Strict parser for the header of a safetensors file: a JSON object of NAME: {dtype, shape, data_offsets} and an
// optional "__metadata__" of strings, nothing else.
//
// It accepts a subset of what the reference implementation accepts (github.com/huggingface/safetensors, "Format"): the
// byte ranges cover the data without gaps, overlaps or remainder; shape × dtype gives exactly the range; no name occurs
// twice. It is hand-written because a DOM of a million entries takes seconds and a gigabyte; here an entry takes about
// fifty bytes, and names are views of the mapped file.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_dtype.h"

namespace dml {

struct SafetensorsHeader {
  static constexpr std::size_t kMaxBytes = 100'000'000, kMaxEntries = 1'000'000, kMaxName = 1024;
  static constexpr int kMaxRank = 8;

  struct Entry {
    std::string_view name;     // a view of the text, or of an element of `unescaped`
    std::uint64_t begin, end;  // bytes from the start of the data
    std::uint32_t first_dim;   // index into `dims`
    std::uint8_t rank;
    DType dtype;
  };
  std::vector<Entry> entries;  // by name
  std::vector<std::int64_t> dims;
  std::deque<std::string> unescaped;
  std::vector<std::pair<std::string, std::string>> metadata;

  std::span<const std::int64_t> shape(const Entry& e) const { return std::span(dims).subspan(e.first_dim, e.rank); }
};

/// `text` must outlive the result; `data_bytes`: number of bytes after it in the file. UserError with the byte offset.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& source);

}  // namespace dml
