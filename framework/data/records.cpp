#include "data/records.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/shown.h"
#include "core/text.h"
#include "core/utf8.h"
#include "data/arrow/rows.h"
#include "data/parquet/rows.h"
#include "data/row_json.h"

namespace dml {
namespace {

constexpr std::size_t kTextBuffer = 1 << 18;

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

RowReader::RowReader(const SourceFile& source, bool empty_rows) : source_(source), empty_rows_(empty_rows) {
  if (is_table(source_.form)) {
    if (source_.form == RowForm::parquet) table_ = std::make_unique<parquet::Rows>(source_.path);
    else table_ = std::make_unique<arrow::Rows>(source_.path);
    return;
  }
  stream_ = open_stream(source_.path);
  buffer_.resize(kTextBuffer);
  if (peek() == 0xef) {  // byte order mark
    while (end_ - begin_ < 3) {
      std::size_t n = stream_->read(buffer_.data() + end_, buffer_.size() - end_);
      if (n == 0) break;
      end_ += n;
    }
    if (end_ - begin_ >= 3 && std::memcmp(buffer_.data() + begin_, "\xef\xbb\xbf", 3) == 0) begin_ += 3;
  }
  if (source_.form != RowForm::csv) return;
  RawRow row;
  do {
    if (!next_delimited(row)) throw UserError("{}: there is no header line", source_.path);
  } while (row.empty);
  header_ = fields(row);
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (header_[i].empty())
      header_[i] = fmt::format("Unnamed: {}", i);  // pandas' name for columns without a header, which it writes
    if (std::find(header_.begin(), header_.begin() + static_cast<std::ptrdiff_t>(i), header_[i]) !=
        header_.begin() + static_cast<std::ptrdiff_t>(i))
      throw UserError("{}: column name '{}' occurs twice", place(row), header_[i]);
  }
}

std::string SourceFile::place(std::int64_t number) const {
  const bool rows = form == RowForm::json_array || is_table(form);
  return fmt::format("{}{}{}", path, rows ? ", row " : ":", number);
}

std::string RowReader::place(const RawRow& row) const { return source_.place(row.line); }

int RowReader::peek() {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = stream_->read(buffer_.data(), buffer_.size());
    if (end_ == 0) return -1;
  }
  return static_cast<unsigned char>(buffer_[begin_]);
}

int RowReader::take() {
  int c = peek();
  if (c >= 0) ++begin_;
  line_ += c == '\n';
  return c;
}

// Reserves the memory limit of a row once the row is large: untouched pages cost nothing, while growth by doubling
// would hold two copies.
void RowReader::append(RawRow& row, const char* bytes, std::size_t size) const {
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  const std::size_t after = row.text.size() + size;
  if (after > kLargestRow)
    throw UserError("{}: the row has more than {} MiB; split it into several rows", place(row), kLargestRow >> 20);
  if (after > kLarge && after > row.text.capacity()) row.text.reserve(kLargestRow);
  row.text.append(bytes, size);
}

bool RowReader::next(RawRow& row) {
  row.text.clear();
  row.unended = row.empty = false;
  switch (source_.form) {
    case RowForm::parquet:
    case RowForm::arrow:
      row.line = ++elements_;
      return table_->next(row.text);
    case RowForm::json_array:
      return next_element(row);
    case RowForm::csv:
      return next_delimited(row);
    case RowForm::document:
      return next_document(row);
    default:
      return next_line(row);
  }
}

// Reads a line; blank lines are skipped.
bool RowReader::next_line(RawRow& row) {
  while (peek() >= 0) {
    row.text.clear();
    row.line = line_;
    row.unended = true;
    while (peek() >= 0) {
      const char* from = buffer_.data() + begin_;
      auto* newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
      std::size_t n = newline ? static_cast<std::size_t>(newline - from) : end_ - begin_;
      append(row, from, n);
      begin_ += n + (newline ? 1 : 0);
      if (newline) {
        ++line_;
        row.unended = false;
        break;
      }
    }
    if (!row.text.empty() && row.text.back() == '\r') row.text.pop_back();
    if (!std::all_of(row.text.begin(), row.text.end(), is_space)) return true;
  }
  return false;
}

// Splits a top-level array at its commas; elements are parsed later.
bool RowReader::next_element(RawRow& row) {
  auto fail = [&](const char* what) { throw UserError("{}:{}: {}", source_.path, line_, what); };
  auto skip_space = [&] {
    while (is_space(peek())) take();
  };
  skip_space();
  if (finished_) {
    if (peek() >= 0) fail("text after the end of the array");
    return false;
  }
  if (!inside_) {
    if (take() != '[') fail("expected '[' at the start of the array");
    inside_ = true;
    skip_space();
    if (peek() == ']') {
      take();
      finished_ = true;
      return next_element(row);
    }
  }
  row.line = ++elements_;
  int depth = 0;
  bool string = false, escape = false;
  while (true) {
    int c = peek();
    if (c < 0) fail("the array is not closed; is the file complete?");
    if (string && !escape) {
      const char* from = buffer_.data() + begin_;
      const char* to = end_of_plain(from, buffer_.data() + end_);
      append(row, from, static_cast<std::size_t>(to - from));
      begin_ += static_cast<std::size_t>(to - from);
      if (to > from) continue;
    }
    if (!string && depth == 0 && (c == ',' || c == ']')) break;
    take();
    if (string) {
      if (escape) escape = false;
      else if (c == '\\') escape = true;
      else if (c == '"') string = false;
    } else if (c == '"') {
      string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    } else if (is_space(c)) {
      c = ' ';
    }
    const char byte = static_cast<char>(c);
    append(row, &byte, 1);
  }
  finished_ = take() == ']';
  if (!finished_) {
    skip_space();
    if (peek() == ']') fail("a comma is not followed by an element");
  }
  return true;
}

namespace {

// The quotes of a CSV record (RFC 4180). As in Python's csv, a quote in the middle of a field that began without one is
// a character like others.
class CsvQuotes {
 public:
  explicit CsvQuotes(char delimiter) : delimiter_(delimiter) {}
  enum class Kind { character, quote, delimiter };
  Kind next(char c) {
    switch (state_) {
      case State::quoted:
        if (c != '"') return Kind::character;
        state_ = State::closed;
        return Kind::quote;
      case State::closed:
        if (c == '"') return state_ = State::quoted, Kind::character;  // "" in quotes is a quote
        break;
      case State::start:
        if (c == '"') return state_ = State::quoted, Kind::quote;
        break;
      case State::plain:
        break;
    }
    state_ = c == delimiter_ ? State::start : State::plain;
    return c == delimiter_ ? Kind::delimiter : Kind::character;
  }
  bool quoted() const { return state_ == State::quoted; }

 private:
  enum class State { start, plain, quoted, closed };  // closed: after a quote inside quotes
  char delimiter_;
  State state_ = State::start;
};

}  // namespace

// Reads a CSV record with the newlines inside its quotes.
bool RowReader::next_delimited(RawRow& row) {
  do {  // spreadsheets write empty rows as separators only
    while (peek() == '\n' || peek() == '\r') take();
    if (peek() < 0) return false;
    row.text.clear();
    row.line = line_;
    CsvQuotes quotes(source_.delimiter);
    while (true) {
      int c = take();
      if (c < 0) {
        if (quotes.quoted()) throw UserError("{}: a quoted field is not closed", place(row));
        break;
      }
      const char byte = static_cast<char>(c);
      if (byte == '\n' && !quotes.quoted()) break;
      quotes.next(byte);
      append(row, &byte, 1);
    }
    if (!row.text.empty() && row.text.back() == '\r') row.text.pop_back();
    row.empty = row.text.find_first_not_of(source_.delimiter) == std::string::npos;
  } while (row.empty && !empty_rows_);
  return true;
}

// Reads a whole text file, or, of a long one, up to a blank line.
bool RowReader::next_document(RawRow& row) {
  RawRow line;
  std::size_t blank = 0;
  while (peek() >= 0) {
    const std::int64_t number = line_;
    line.text.clear();
    line.line = number;
    for (int c = take(); c >= 0 && c != '\n'; c = take()) {
      const char byte = static_cast<char>(c);
      append(line, &byte, 1);
    }
    if (line.text.ends_with('\r')) line.text.pop_back();
    if (std::all_of(line.text.begin(), line.text.end(), is_space)) {
      ++blank;
      if (!row.text.empty() && row.text.size() + blank >= kLongDocument) break;
      continue;
    }
    if (row.text.empty()) row.line = number;
    else row.text.append(blank + 1, '\n');
    blank = 0;
    append(row, line.text.data(), line.text.size());
    if (row.text.size() >= 4 * kLongDocument) break;
  }
  return !row.text.empty();
}

std::vector<std::string> RowReader::fields(const RawRow& row) const {
  std::vector<std::string> out(1);
  CsvQuotes quotes(source_.delimiter);
  for (const char c : row.text) {
    const CsvQuotes::Kind kind = quotes.next(c);
    if (kind == CsvQuotes::Kind::delimiter) out.emplace_back();
    else if (kind == CsvQuotes::Kind::character) out.back() += c;
  }
  return out;
}

void RowReader::parse(const RawRow& row, Json& record) const {
  if (source_.form == RowForm::json_lines || source_.form == RowForm::json_array || is_table(source_.form)) {
    try {
      constexpr std::size_t kLarge = std::size_t{1} << 20;
      const JsonLimits limits{.bytes = kLargestRow, .elements = kMaxValues};
      if (std::size_t stopped = 0; !read_row_json(row.text, record, kMaxValues, &stopped)) {
        record = nullptr;  // the part that was read
        if (row.text.size() > kLarge) parse_json(shortened_row(row.text, stopped), place(row), limits);
        record = parse_json(row.text, place(row), limits);
      }
    } catch (const UserError& error) {
      const std::string_view text = trim(row.text);
      if (source_.form == RowForm::json_lines && row.line == 1 && text.starts_with('{') && !text.ends_with('}'))
        throw UserError("{}; a row is one line: write an object over several lines as an element of a JSON array",
                        error.what());
      if (!row.unended) throw;
      throw UserError("{}; this is the last line and it has no newline; is the file complete?", error.what());
    }
    if (!record.is_object())
      throw UserError("{}: a row must be an object {{…}}, is {}", place(row), shown(dump(record), 40));
    return;
  }
  if (auto bad = find_invalid_utf8(row.text); bad != std::string::npos)
    throw UserError("{}: byte {} is not UTF-8", place(row), bad + 1);
  record = Json::object();
  if (source_.form == RowForm::text || source_.form == RowForm::document) {
    record["text"] = row.text;
    return;
  }
  auto values = fields(row);
  if (values.size() != header_.size())
    throw UserError("{}: {} fields, but the header line has {}", place(row), values.size(), header_.size());
  for (std::size_t i = 0; i < values.size(); ++i) record[header_[i]] = std::move(values[i]);
}

}  // namespace dml
