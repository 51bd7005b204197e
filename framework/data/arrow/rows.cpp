#include "data/arrow/rows.h"

#include <algorithm>

#include "core/error.h"
#include "data/codecs.h"
#include "data/json_values.h"

namespace dml::arrow {
namespace {

constexpr std::string_view kMagic = "ARROW1";
constexpr std::int64_t kMaxRows = 1 << 26;                    // of a batch
constexpr std::int64_t kMaxUnpacked = std::int64_t{2} << 30;  // bytes of a buffer
enum Header { kSchema = 1, kDictionary, kBatch };

template <class T>
bool has(std::string_view bytes, std::int64_t count) {
  return static_cast<std::uint64_t>(count) <= bytes.size() / sizeof(T);
}

}  // namespace

// The buffers and lengths of a batch, read by its columns in order.
class Rows::Batch {
 public:
  Batch(const Rows& rows, const FlatTable& header, std::string_view body, std::deque<std::string>& unpacked)
      : rows_(rows),
        body_(body),
        nodes_(header.vector(1, 16)),
        buffers_(header.vector(2, 16)),
        pieces_(header.vector(4, 8)),
        unpacked_(unpacked) {
    if (!header.has(3)) return;
    const FlatTable compression = header.table(3);
    const auto codec = compression.number<std::int8_t>(0, 0);
    if (codec != 0 && codec != 1) rows_.fail("a batch packed by an unknown codec");
    codec_ = codec == 0 ? Codec::lz4_frame : Codec::zstd;
  }

  Array array(const Field& field) {
    Array out;
    out.field = &field;
    if (node_ >= nodes_.size()) rows_.fail("a batch with fewer columns than the schema");
    out.length = nodes_.number(node_, 0);
    const std::int64_t nulls = nodes_.number(node_++, 8);
    if (out.length < 0 || out.length > kMaxRows || nulls < 0 || nulls > out.length)
      rows_.fail("a column with a wrong number of values");
    if (field.dictionary) {
      take_validity(out, nulls);
      out.values = fixed(field.index_bytes, out.length);
      return out;
    }
    take_buffers(out, nulls);
    for (const Field& child : field.children) out.children.push_back(array(child));
    check_children(out);
    return out;
  }

 private:
  void take_validity(Array& out, std::int64_t nulls) {
    const std::string_view bits = buffer();
    if (nulls == 0) return;
    if (!has<char>(bits, (out.length + 7) / 8))
      rows_.fail(fmt::format("column '{}': too few bits that say which values are there", out.field->name));
    out.validity = bits;
  }

  void take_buffers(Array& out, std::int64_t nulls) {
    const Field& field = *out.field;
    if (field.kind == Kind::null) return;
    take_validity(out, nulls);
    switch (field.kind) {
      case Kind::text:
      case Kind::bytes:
        take_offsets(out);
        out.values = buffer();
        break;
      case Kind::list:
      case Kind::map:
        take_offsets(out);
        break;
      case Kind::text_view:
      case Kind::bytes_view:
        out.offsets = fixed(16, out.length);
        if (piece_ >= pieces_.size()) rows_.fail("a batch that does not say how many pieces a column has");
        for (std::int64_t n = pieces_.number(piece_++, 0); n > 0; --n) out.pieces.push_back(buffer());
        break;
      case Kind::structure:
      case Kind::fixed_list:
        break;
      case Kind::boolean:
        out.values = buffer();
        if (!has<char>(out.values, (out.length + 7) / 8))
          rows_.fail(fmt::format("column '{}' has too few values", field.name));
        break;
      default:
        out.values = fixed(field.bytes, out.length);
    }
  }

  void take_offsets(Array& out) {
    out.offsets = buffer();
    const bool enough = out.field->wide ? has<std::int64_t>(out.offsets, out.length + 1)
                                        : has<std::int32_t>(out.offsets, out.length + 1);
    if (out.length > 0 && !enough) rows_.fail(fmt::format("column '{}' has too few offsets", out.field->name));
  }

  std::string_view fixed(int bytes, std::int64_t count) {
    const std::string_view values = buffer();
    if (bytes > 0 && static_cast<std::uint64_t>(count) > values.size() / static_cast<std::uint64_t>(bytes))
      rows_.fail("a column has too few values");
    return values;
  }

  void check_children(const Array& out) const {
    if (out.field->kind == Kind::fixed_list && out.field->size > 0 &&
        out.children[0].length / out.field->size < out.length)
      rows_.fail(fmt::format("the lists of '{}' have too few values", out.field->name));
    if (out.field->kind != Kind::structure) return;
    for (const Array& child : out.children)
      if (child.length < out.length)
        rows_.fail(fmt::format("column '{}' is shorter than its struct", child.field->name));
  }

  std::string_view buffer() {
    if (buffer_ >= buffers_.size()) rows_.fail("a batch with fewer buffers than its columns need");
    const std::int64_t at = buffers_.number(buffer_, 0), size = buffers_.number(buffer_, 8);
    ++buffer_;
    const auto all = static_cast<std::int64_t>(body_.size());
    if (at < 0 || size < 0 || at > all || size > all - at) rows_.fail("a buffer outside of its batch");
    const std::string_view bytes = body_.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
    if (codec_ == Codec::none || bytes.empty()) return bytes;
    if (bytes.size() < 8) rows_.fail("a packed buffer without its size");
    const auto unpacked = load_at<std::int64_t>(bytes, 0);
    if (unpacked == -1) return bytes.substr(8);  // −1: stored uncompressed
    if (unpacked < 0 || unpacked > kMaxUnpacked) rows_.fail(fmt::format("a buffer of {} bytes unpacked", unpacked));
    if (const std::string why =
            unpack_block(codec_, bytes.substr(8), static_cast<std::size_t>(unpacked), unpacked_.emplace_back());
        !why.empty())
      rows_.fail(why);
    return unpacked_.back();
  }

  const Rows& rows_;
  std::string_view body_;
  FlatVector nodes_, buffers_, pieces_;
  std::deque<std::string>& unpacked_;
  Codec codec_ = Codec::none;
  std::size_t node_ = 0, buffer_ = 0, piece_ = 0;
};

Rows::Rows(const std::string& path) : file_(path) {
  const std::string_view all = file_.text();
  if (all.starts_with("FEA1"))
    fail("it is Feather 1, an older format; pandas.read_feather reads it, to_parquet writes what dml reads");
  if (all.starts_with(kMagic)) read_footer();
  else
    while (columns_.empty() && load()) {
    }
  if (columns_.empty()) fail("it has no schema with columns");
}

// Reads the footer of a file: its schema, which some writers store nowhere else, and the places of its dictionaries and
// batches.
void Rows::read_footer() {
  constexpr std::size_t kBlock = 24, kEnd = 4 + kMagic.size();
  const std::string_view all = file_.text();
  is_file_ = true;
  if (all.size() < 8 + kEnd || !all.ends_with(kMagic)) fail("it does not end with 'ARROW1': the file was cut off");
  at_ = all.size() - kEnd;
  const auto size = load_at<std::uint32_t>(all.substr(at_), 0);
  if (size > at_ - 8) fail(fmt::format("a footer of {} bytes", size));
  try {
    const FlatTable footer(all.substr(at_ - size, size));
    take_schema(footer.table(1));
    for (const int list : {2, 3}) {
      const FlatVector blocks = footer.vector(list, kBlock);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const std::int64_t place = blocks.number(i, 0);
        if (place < 8 || static_cast<std::uint64_t>(place) > all.size()) fail("a batch outside of the file");
        blocks_.push_back(static_cast<std::size_t>(place));
      }
    }
  } catch (const FlatProblem& problem) {
    fail(problem.what());
  }
}

void Rows::take_schema(const FlatTable& schema) {
  fields_ = read_schema(schema);
  for (const Field& field : fields_) add_coded(field), columns_.push_back(&field);
}

void Rows::fail(std::string_view what) const { throw UserError("{}, byte {}: {}", file_.path(), at_, what); }

bool Rows::load() {
  const std::string_view all = file_.text();
  if (is_file_) {
    if (blocks_.empty()) return false;
    at_ = blocks_.front();
    blocks_.pop_front();
  }
  if (ended_ || at_ == all.size()) return false;
  auto number = [&]() -> std::uint32_t {
    if (all.size() - at_ < 4) fail("the file ends inside a message: it was cut off");
    const auto value = load_at<std::uint32_t>(all.substr(at_), 0);
    at_ += 4;
    return value;
  };
  std::uint32_t size = number();
  if (size == 0xffffffff) size = number();  // absent before Arrow 0.15
  if (size == 0) {
    ended_ = true;
    return false;
  }
  if (size > all.size() - at_) fail(fmt::format("metadata of {} bytes, {} are left", size, all.size() - at_));
  try {
    const FlatTable message(all.substr(at_, size));
    const auto body_size = message.number<std::int64_t>(3, 0);
    if (body_size < 0 || static_cast<std::uint64_t>(body_size) > all.size() - at_ - size)
      fail(fmt::format("a message of {} bytes, {} are left", body_size, all.size() - at_ - size));
    const std::string_view body = all.substr(at_ + size, static_cast<std::size_t>(body_size));
    const auto kind = message.number<std::uint8_t>(1, 0);
    if (kind == kSchema && columns_.empty()) {
      take_schema(message.table(2));
    } else if (kind == kDictionary) {
      read_dictionary(message.table(2), body);
    } else if (kind == kBatch) {
      const FlatTable header = message.table(2);
      batch_.clear();
      unpacked_.clear();
      length_ = header.number<std::int64_t>(0, 0);
      in_batch_ = 0;
      read_batch(header, body, columns_, batch_, unpacked_);
      for (const Array& column : batch_)
        if (column.length != length_)
          fail(fmt::format("column '{}' has {} of {} rows", column.field->name, column.length, length_));
    } else {
      fail(fmt::format("a message of kind {}", kind));
    }
    at_ += size + body.size();
  } catch (const FlatProblem& problem) {
    fail(problem.what());
  }
  return true;
}

void Rows::add_coded(const Field& field) {
  if (field.dictionary) {
    Field values = field;
    values.dictionary.reset();
    auto nested = [](auto&& self, const Field& f) -> bool {
      return f.dictionary || std::ranges::any_of(f.children, [&](const Field& child) { return self(self, child); });
    };
    if (nested(nested, values)) fail(fmt::format("column '{}' is a dictionary of dictionaries", field.name));
    coded_[*field.dictionary] = std::move(values);
  }
  for (const Field& child : field.children) add_coded(child);
}

void Rows::read_batch(const FlatTable& header, std::string_view body, const std::vector<const Field*>& fields,
                      std::vector<Array>& out, std::deque<std::string>& unpacked) const {
  Batch batch(*this, header, body, unpacked);
  for (const Field* field : fields) out.push_back(batch.array(*field));
  auto connect = [&](auto&& self, Array& array) -> void {
    if (array.field->dictionary) {
      const auto found = dictionaries_.find(*array.field->dictionary);
      if (found != dictionaries_.end() && !found->second.values.empty()) array.dictionary = &found->second.values[0];
    }
    for (Array& child : array.children) self(self, child);
  };
  for (Array& array : out) connect(connect, array);
}

// Values of a column, once for all rows. A delta adds to earlier ones, which no writer of datasets makes.
void Rows::read_dictionary(const FlatTable& header, std::string_view body) {
  const auto id = header.number<std::int64_t>(0, 0);
  const auto found = coded_.find(id);
  if (found == coded_.end()) fail(fmt::format("dictionary {} belongs to no column", id));
  if (header.number<std::uint8_t>(2, 0) != 0)
    fail("a dictionary that is continued; write the file with whole dictionaries");
  Dictionary fresh;
  read_batch(header.table(1), body, {&found->second}, fresh.values, fresh.unpacked);
  dictionaries_[id] = std::move(fresh);
}

bool Rows::next(std::string& row) {
  row.clear();
  while (in_batch_ == length_)
    if (!load()) return false;
  char before = '{';
  for (const Array& column : batch_) {
    row += before;
    before = ',';
    put_text(column.field->name, row);
    row += ':';
    write(column, in_batch_, row);
  }
  row += '}';
  ++in_batch_, ++row_;
  return true;
}

}  // namespace dml::arrow
