// Decoders for the values and levels of a page (apache/parquet-format, Encodings.md). A page is decoded as a whole.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "data/parquet/schema.h"

namespace dml::parquet {

/// An error in a page; the caller adds file, column and place.
class PageProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One value of any type: texts are views into the page or the dictionary.
struct Value {
  std::string_view bytes{};
  union {
    std::int64_t whole = 0;
    double real;
  };
};

/// The encodings of the format that are read, with their numbers in files.
enum class Encoding : std::int64_t {
  plain = 0,
  plain_dictionary = 2,
  rle = 3,
  bit_packed = 4,
  delta_binary_packed = 5,
  delta_length_byte_array = 6,
  delta_byte_array = 7,
  rle_dictionary = 8,
  byte_stream_split = 9
};

/// Decodes `count` numbers of `width` bits in the RLE / bit-packed hybrid encoding. Returns the number of bytes read.
std::size_t read_hybrid(std::string_view in, int width, std::size_t count, std::vector<std::uint32_t>& out);
/// Decodes levels in the deprecated bit-packed encoding, most significant bit first.
std::size_t read_bit_packed(std::string_view in, int width, std::size_t count, std::vector<std::uint32_t>& out);
/// Bits of a level whose maximum is `most`.
int level_width(int most);

struct Page {
  std::string_view values;
  Encoding encoding = Encoding::plain;
  std::size_t count = 0;  // number of values that are not null
};
/// Decodes the values of a column's type. `store` owns strings that had to be assembled; its elements must not move
/// afterwards.
void read_values(const Page& page, const Node& column, const std::vector<Value>& dictionary, std::vector<Value>& out,
                 std::string& store);

}  // namespace dml::parquet
