// The header of a safetensors file, read strictly: a JSON object of NAME: {dtype, shape, data_offsets} and an optional
// "__metadata__" of texts, nothing else.
//
// Accepted is a subset of what the reference implementation accepts (github.com/huggingface/safetensors, "Format"):
// the byte ranges cover the data without holes, overlaps or remainder; shape × dtype gives exactly the range; no name
// occurs twice. Read by hand because a DOM of a million entries takes seconds and a gigabyte; here an entry costs some
// fifty bytes and names stay in the mapped file.
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
    std::string_view name;     // into the text, or into `unescaped`
    std::uint64_t begin, end;  // bytes from the start of the data
    std::uint32_t first_dim;   // into `dims`
    std::uint8_t rank;
    DType dtype;
  };
  std::vector<Entry> entries;  // by name
  std::vector<std::int64_t> dims;
  std::deque<std::string> unescaped;
  std::vector<std::pair<std::string, std::string>> metadata;

  std::span<const std::int64_t> shape(const Entry& e) const { return std::span(dims).subspan(e.first_dim, e.rank); }
};

/// `text` must outlive the result; `data_bytes` is what follows it in the file. Throws UserError with the byte's place.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& source);

}  // namespace dml
