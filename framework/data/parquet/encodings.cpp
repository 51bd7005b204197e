#include "data/parquet/encodings.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "core/varint.h"

namespace dml::parquet {
namespace {

class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(std::size_t size) {
    if (size > left()) throw PageProblem(fmt::format("{} bytes are expected, {} are left", size, left()));
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  template <class T>
  T number() {
    T x;
    std::memcpy(&x, take(sizeof(T)).data(), sizeof(T));
    return x;
  }
  std::uint64_t varint() {
    const auto value = read_varint([&] { return number<std::uint8_t>(); });
    if (!value) throw PageProblem("a number of more than 10 bytes");
    return *value;
  }
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t position() const { return at_; }
  std::string_view rest() const { return bytes_.substr(at_); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

__extension__ typedef unsigned __int128 Wide;

// Number i of bit-packed numbers of `width` bits, least significant bit first.
std::uint64_t packed(std::string_view bytes, std::size_t i, int width) {
  if (width == 0) return 0;
  const std::size_t bit = i * static_cast<std::size_t>(width), first = bit / 8;
  Wide window = 0;
  std::memcpy(&window, bytes.data() + first, std::min<std::size_t>(16, bytes.size() - first));
  const auto x = static_cast<std::uint64_t>(window >> (bit % 8));
  return width == 64 ? x : x & ((std::uint64_t{1} << width) - 1);
}

// Appends `count` bit-packed numbers of at most 32 bits to `out`.
void unpack(std::string_view bytes, int width, std::size_t count, std::vector<std::uint32_t>& out) {
  const std::size_t before = out.size(), bits = static_cast<std::size_t>(width);
  out.resize(before + count);
  std::uint32_t* const to = out.data() + before;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  // The eight bytes from the beginning of a number contain all of it; near the end of the page fewer remain.
  const std::size_t safe = bytes.size() < 8 || bits == 0 ? 0 : std::min(count, (bytes.size() - 8) * 8 / bits);
  for (std::size_t i = 0; i < safe; ++i) {
    std::uint64_t window;
    std::memcpy(&window, bytes.data() + i * bits / 8, 8);
    to[i] = static_cast<std::uint32_t>(window >> (i * bits % 8) & mask);
  }
  for (std::size_t i = safe; i < count; ++i) to[i] = static_cast<std::uint32_t>(packed(bytes, i, width));
}

// DELTA_BINARY_PACKED; sums wrap at the width of the column.
std::vector<std::int64_t> read_delta(Input& in, bool narrow, std::size_t most) {
  const std::uint64_t block = in.varint(), parts = in.varint(), count = in.varint();
  std::uint64_t value = unzigzag(in.varint());
  if (block == 0 || block % 128 != 0 || block > (1 << 20) || parts == 0 || block % parts != 0 ||
      block / parts % 32 != 0)
    throw PageProblem("the sizes of its delta blocks are impossible");
  if (count > most) throw PageProblem(fmt::format("{} deltas for {} values", count, most));
  std::vector<std::int64_t> out;
  out.reserve(count);
  auto put = [&] { out.push_back(narrow ? static_cast<std::int32_t>(value) : static_cast<std::int64_t>(value)); };
  if (count > 0) put();
  const std::uint64_t each = block / parts;
  while (out.size() < count) {
    const std::uint64_t least = unzigzag(in.varint());
    const std::string_view widths = in.take(parts);
    for (std::uint64_t p = 0; p < parts && out.size() < count; ++p) {
      const int width = static_cast<unsigned char>(widths[p]);
      if (width > 64) throw PageProblem(fmt::format("deltas of {} bits", width));
      const std::string_view bytes = in.take(each * static_cast<std::uint64_t>(width) / 8);
      for (std::uint64_t i = 0; i < each && out.size() < count; ++i) {
        value += least + packed(bytes, i, width);
        put();
      }
    }
  }
  return out;
}

void read_plain(Input& in, const Node& column, std::size_t count, std::vector<Value>& out) {
  const std::size_t least = column.physical == Physical::int96     ? 12
                            : column.physical == Physical::real64  ? 8
                            : column.physical == Physical::int64   ? 8
                            : column.physical == Physical::fixed   ? static_cast<std::size_t>(column.length)
                            : column.physical == Physical::boolean ? 0
                                                                   : 4;
  if ((least > 0 && count > in.left() / least) || (column.physical == Physical::boolean && count / 8 > in.left()))
    throw PageProblem(fmt::format("{} values in {} bytes", count, in.left()));
  out.resize(count);
  const auto numbers = [&](auto kind, auto member) {
    using Number = decltype(kind);
    const std::string_view all = in.take(count * sizeof(Number));
    for (std::size_t i = 0; i < count; ++i) {
      Number x;
      std::memcpy(&x, all.data() + i * sizeof(Number), sizeof(Number));
      out[i].*member = x;
    }
  };
  const auto pieces = [&](std::size_t size) {
    for (Value& value : out) value.bytes = in.take(size);
  };
  switch (column.physical) {
    case Physical::boolean: {
      const std::string_view bits = in.take((count + 7) / 8);
      for (std::size_t i = 0; i < count; ++i) out[i].whole = static_cast<unsigned char>(bits[i / 8]) >> (i % 8) & 1;
      return;
    }
    case Physical::int32:
      return numbers(std::int32_t{}, &Value::whole);
    case Physical::int64:
      return numbers(std::int64_t{}, &Value::whole);
    case Physical::real:
      return numbers(float{}, &Value::real);
    case Physical::real64:
      return numbers(double{}, &Value::real);
    case Physical::int96:
      return pieces(12);
    case Physical::fixed:
      return pieces(static_cast<std::size_t>(column.length));
    default:
      for (Value& value : out) value.bytes = in.take(in.number<std::uint32_t>());
  }
}

void read_split(Input& in, const Node& column, std::size_t count, std::vector<Value>& out, std::string& store) {
  const std::size_t width = column.physical == Physical::fixed ? static_cast<std::size_t>(column.length)
                            : column.physical == Physical::int32 || column.physical == Physical::real ? 4
                                                                                                      : 8;
  if (column.physical == Physical::bytes || column.physical == Physical::boolean ||
      column.physical == Physical::int96 || (width > 0 && count > in.left() / width))
    throw PageProblem("BYTE_STREAM_SPLIT does not fit the column");
  const std::string_view all = in.take(count * width);
  store.resize(count * width);
  for (std::size_t b = 0; b < width; ++b)
    for (std::size_t i = 0; i < count; ++i) store[i * width + b] = all[b * count + i];
  Input joined(store);
  read_plain(joined, column, count, out);
}

void read_delta_texts(Input& in, bool prefixes, std::size_t count, std::vector<Value>& out, std::string& store) {
  const std::vector<std::int64_t> kept = prefixes ? read_delta(in, true, count) : std::vector<std::int64_t>(count, 0);
  const std::vector<std::int64_t> lengths = read_delta(in, true, count);
  if (kept.size() != count || lengths.size() != count) throw PageProblem("there are fewer lengths than values");
  std::size_t total = 0;
  constexpr std::size_t kMax = std::size_t{1} << 28;
  for (std::size_t i = 0; i < count; ++i) {
    if (kept[i] < 0 || lengths[i] < 0) throw PageProblem("a length below 0");
    if ((total += static_cast<std::size_t>(kept[i] + lengths[i])) > kMax) throw PageProblem("its texts are too large");
  }
  if (!prefixes) {
    for (std::size_t i = 0; i < count; ++i) out.push_back({in.take(static_cast<std::size_t>(lengths[i])), {}});
    return;
  }
  store.clear();
  store.reserve(total);
  std::string_view before;
  for (std::size_t i = 0; i < count; ++i) {
    const auto keep = static_cast<std::size_t>(kept[i]);
    if (keep > before.size()) throw PageProblem("a prefix longer than the text before it");
    const std::size_t begin = store.size();
    store.append(before.substr(0, keep)).append(in.take(static_cast<std::size_t>(lengths[i])));
    before = std::string_view(store).substr(begin);
    out.push_back({before, {}});
  }
}

}  // namespace

int level_width(int most) { return static_cast<int>(std::bit_width(static_cast<unsigned>(most))); }

std::size_t read_hybrid(std::string_view bytes, int width, std::size_t count, std::vector<std::uint32_t>& out) {
  Input in(bytes);
  out.clear();
  out.reserve(count);
  const auto value_bytes = static_cast<std::size_t>(width + 7) / 8;
  while (out.size() < count) {
    const std::uint64_t head = in.varint();
    const std::size_t left = count - out.size();
    if (head & 1) {
      const std::uint64_t groups = head >> 1;
      if (groups == 0 || groups > (std::uint64_t{1} << 32)) throw PageProblem("a run of no values");
      const std::uint64_t size = groups * static_cast<std::uint64_t>(width);
      // The last group may be shorter than eight numbers.
      const std::string_view run = in.take(std::min<std::uint64_t>(size, in.left()));
      const std::size_t there = width == 0 ? left : run.size() * 8 / static_cast<std::size_t>(width);
      const std::size_t some = std::min<std::uint64_t>(left, groups * 8);
      if (there < some) throw PageProblem(fmt::format("{} packed values are expected, {} are there", some, there));
      unpack(run, width, some, out);
    } else {
      const std::uint64_t run = head >> 1;
      if (run == 0) throw PageProblem("a run of no values");
      std::uint32_t value = 0;
      std::memcpy(&value, in.take(value_bytes).data(), value_bytes);
      out.insert(out.end(), std::min<std::uint64_t>(run, left), value);
    }
  }
  return in.position();
}

std::size_t read_bit_packed(std::string_view bytes, int width, std::size_t count, std::vector<std::uint32_t>& out) {
  Input in(bytes);
  const std::string_view run = in.take((count * static_cast<std::size_t>(width) + 7) / 8);
  out.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    for (int b = 0; b < width; ++b) {
      const std::size_t bit = i * static_cast<std::size_t>(width) + static_cast<std::size_t>(b);
      out[i] = out[i] << 1 | (static_cast<unsigned char>(run[bit / 8]) >> (7 - bit % 8) & 1u);
    }
  return in.position();
}

void read_values(const Page& page, const Node& column, const std::vector<Value>& dictionary, std::vector<Value>& out,
                 std::string& store) {
  Input in(page.values);
  out.clear();
  std::vector<std::uint32_t> numbers;
  switch (page.encoding) {
    case Encoding::plain:
      return read_plain(in, column, page.count, out);
    case Encoding::plain_dictionary:
    case Encoding::rle_dictionary: {
      if (page.count == 0) return;
      const int width = in.number<std::uint8_t>();
      if (width > 32) throw PageProblem(fmt::format("dictionary indices of {} bits", width));
      read_hybrid(in.rest(), width, page.count, numbers);
      out.reserve(page.count);
      for (std::uint32_t i : numbers) {
        if (i >= dictionary.size())
          throw PageProblem(fmt::format("index {} in a dictionary of {}", i, dictionary.size()));
        out.push_back(dictionary[i]);
      }
      return;
    }
    case Encoding::rle: {
      if (column.physical != Physical::boolean) throw PageProblem("RLE is for booleans");
      const auto size = in.number<std::uint32_t>();
      read_hybrid(in.take(size), 1, page.count, numbers);
      for (std::uint32_t x : numbers) out.push_back({{}, {x}});
      return;
    }
    case Encoding::delta_binary_packed: {
      if (column.physical != Physical::int32 && column.physical != Physical::int64)
        throw PageProblem("DELTA_BINARY_PACKED is for whole numbers");
      for (std::int64_t x : read_delta(in, column.physical == Physical::int32, page.count)) out.push_back({{}, {x}});
      break;
    }
    case Encoding::delta_length_byte_array:
    case Encoding::delta_byte_array:
      if (column.physical != Physical::bytes && column.physical != Physical::fixed)
        throw PageProblem("DELTA_BYTE_ARRAY is for texts");
      return read_delta_texts(in, page.encoding == Encoding::delta_byte_array, page.count, out, store);
    case Encoding::byte_stream_split:
      return read_split(in, column, page.count, out, store);
    default:
      throw PageProblem(fmt::format("encoding {} is not supported", static_cast<std::int64_t>(page.encoding)));
  }
  if (out.size() != page.count)
    throw PageProblem(fmt::format("{} values are expected, {} are there", page.count, out.size()));
}

}  // namespace dml::parquet
