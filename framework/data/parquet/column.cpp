#include "data/parquet/column.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "data/codecs.h"
#include "data/parquet/thrift.h"
#include "data/parquet/value_json.h"

namespace dml::parquet {

using Type = Thrift::Type;

void Column::fail(std::string_view what) const { throw UserError("{}, byte {}: {}", where_, at_, what); }

bool Column::load_next() {
  while (entry_ == entries_) {
    if (left_ == 0) return false;
    load();
  }
  return true;
}

void Column::write_value(std::string& out) const {
  const Value& value = values_[value_];
  if (from_dictionary_ && dictionary_is_json_) out += value.bytes;
  else put_value(value, *node_, out);
}

Column::Header Column::read_header() {
  Header h;
  Thrift in(file_.substr(at_, chunk_->end - at_), fmt::format("{}, page at {}", where_, at_));
  auto number = [&](Type type) { return in.integer(type); };
  in.fields([&](int id, Type type) {
    if (id == 1) h.type = number(type);
    else if (id == 2) h.unpacked = number(type);
    else if (id == 3) h.packed = number(type);
    else if (id == 4) h.crc = number(type), h.has_crc = true;
    else if ((id == 5 || id == 7) && type == Type::structure)
      in.fields([&](int inner, Type kind) {
        if (inner == 1) h.values = number(kind);
        else if (inner == 2) h.encoding = static_cast<Encoding>(number(kind));
        else if (inner == 3 && id == 5) h.def_encoding = static_cast<Encoding>(number(kind));
        else if (inner == 4 && id == 5) h.rep_encoding = static_cast<Encoding>(number(kind));
        else in.skip(kind);
      });
    else if (id == 8 && type == Type::structure)
      in.fields([&](int inner, Type kind) {
        if (inner == 1) h.values = number(kind);
        else if (inner == 4) h.encoding = static_cast<Encoding>(number(kind));
        else if (inner == 5) h.def_bytes = number(kind);
        else if (inner == 6) h.rep_bytes = number(kind);
        else if (inner == 7) h.is_packed = in.truth(kind);
        else in.skip(kind);
      });
    else in.skip(type);
  });
  at_ += in.position();
  return h;
}

void Column::load() {
  if (at_ >= chunk_->end) fail(fmt::format("the column ends, {} values are missing", left_));
  const Header h = read_header();
  if (h.packed < 0 || static_cast<std::uint64_t>(h.packed) > chunk_->end - at_)
    fail(fmt::format("a page of {} bytes, {} are left", h.packed, chunk_->end - at_));
  if (h.unpacked < 0 || static_cast<std::uint64_t>(h.unpacked) > kMaxBytes)
    fail(fmt::format("a page of {} bytes unpacked; {} are the most", h.unpacked, kMaxBytes));
  if (h.values < 0 || static_cast<std::uint64_t>(h.values) > kMaxValues)
    fail(fmt::format("a page of {} values; {} are the most", h.values, kMaxValues));
  const std::string_view body = file_.substr(at_, static_cast<std::size_t>(h.packed));
  if (h.has_crc && static_cast<std::uint32_t>(h.crc) != crc32_of(body))
    fail("the page's checksum is wrong: the file is damaged");
  try {
    if (h.type == 2) load_dictionary(h, body);
    else if (h.type == 0 || h.type == 3) load_data(h, body);
    else if (h.type != 1) fail(fmt::format("a page of type {}", h.type));
  } catch (const PageProblem& problem) {
    fail(problem.what());
  }
  at_ += body.size();
}

void Column::load_dictionary(const Header& h, std::string_view body) {
  if (!dictionary_.empty()) fail("a second dictionary");
  if (h.encoding != Encoding::plain && h.encoding != Encoding::plain_dictionary)
    fail(fmt::format("a dictionary in encoding {}", static_cast<std::int64_t>(h.encoding)));
  if (auto why = unpack_block(codec(), body, static_cast<std::size_t>(h.unpacked), dictionary_page_); !why.empty())
    fail(why);
  read_values({dictionary_page_, Encoding::plain, static_cast<std::size_t>(h.values)}, *node_, {}, dictionary_,
              dictionary_store_);
  write_dictionary();
}

// Converts the values of the dictionary to JSON once.
void Column::write_dictionary() {
  constexpr std::size_t kMax = std::size_t{4} << 20;  // writers stop at 1 MB
  if (dictionary_page_.size() > kMax) return;
  std::string json;
  std::vector<std::size_t> ends;
  ends.reserve(dictionary_.size());
  for (const Value& value : dictionary_) {
    put_value(value, *node_, json);
    ends.push_back(json.size());
  }
  dictionary_store_ = std::move(json);
  const std::string_view all = dictionary_store_;
  for (std::size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++])
    dictionary_[i].bytes = all.substr(begin, ends[i] - begin);
  dictionary_is_json_ = true;
}

// Reads the levels of a page of version 1: with their length in front, or, in old files, bit-packed without one.
void Column::read_levels(const Header& h, std::string_view& rest, std::string_view& levels, bool second) {
  const int most = second ? node_->def : node_->rep;
  std::vector<std::uint32_t>& out = second ? defs_ : reps_;
  const auto count = static_cast<std::size_t>(h.values);
  out.clear();
  if (most == 0) return;
  const int width = level_width(most);
  if (h.type == 3) {
    read_hybrid(levels, width, count, out);
  } else if ((second ? h.def_encoding : h.rep_encoding) == Encoding::bit_packed) {
    rest.remove_prefix(read_bit_packed(rest, width, count, out));
  } else {
    std::uint32_t size = 0;
    if (rest.size() < 4) fail("the levels are missing");
    std::memcpy(&size, rest.data(), 4);
    if (size > rest.size() - 4) fail(fmt::format("levels of {} bytes, {} are left", size, rest.size() - 4));
    read_hybrid(rest.substr(4, size), width, count, out);
    rest.remove_prefix(4 + size);
  }
  std::uint32_t highest = 0;
  for (const std::uint32_t level : out) highest = std::max(highest, level);
  if (highest > static_cast<std::uint32_t>(most)) fail(fmt::format("a level above {}", most));
}

// The bytes of a page: in the file, or decompressed into page_.
std::string_view Column::unpacked(Codec codec, std::string_view packed, std::size_t size) {
  if (codec == Codec::none && packed.size() == size) return packed;
  if (auto why = unpack_block(codec, packed, size, page_); !why.empty()) fail(why);
  return page_;
}

void Column::load_data(const Header& h, std::string_view body) {
  if (h.values > left_) fail(fmt::format("a page of {} values, the column has {} left", h.values, left_));
  std::string_view levels, rest;
  if (h.type == 3) {
    const std::int64_t most = std::min<std::int64_t>(std::ssize(body), h.unpacked);
    if (h.def_bytes < 0 || h.rep_bytes < 0 || h.def_bytes > most || h.rep_bytes > most - h.def_bytes)
      fail("levels larger than the page");
    levels = body.substr(0, static_cast<std::size_t>(h.def_bytes + h.rep_bytes));
    const auto size = static_cast<std::size_t>(h.unpacked) - levels.size();
    if (size > 0)
      rest =
          unpacked(h.is_packed ? codec() : Codec::none, body.substr(levels.size()), size);  // none: whatever the codec
  } else {
    rest = unpacked(codec(), body, static_cast<std::size_t>(h.unpacked));
  }
  std::string_view reps = levels.substr(0, std::min(levels.size(), static_cast<std::size_t>(h.rep_bytes)));
  std::string_view defs = levels.substr(reps.size());
  read_levels(h, rest, reps, false);
  read_levels(h, rest, defs, true);
  entries_ = static_cast<std::size_t>(h.values), entry_ = value_ = 0;
  const auto there = defs_.empty()
                         ? entries_
                         : static_cast<std::size_t>(std::ranges::count(defs_, static_cast<std::uint32_t>(node_->def)));
  values_.clear();
  from_dictionary_ = h.encoding == Encoding::plain_dictionary || h.encoding == Encoding::rle_dictionary;
  if (there > 0) read_values({rest, h.encoding, there}, *node_, dictionary_, values_, store_);
  left_ -= h.values;
}

}  // namespace dml::parquet
