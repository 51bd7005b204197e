// Reads tokenizer.json in one pass: vocabulary and merges into tables, the rest into a JSON tree.
#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/lines.h"
#include "core/shown.h"
#include "tokenizer/tokenizer_json.h"

namespace dml {
namespace {

constexpr std::size_t kMaxFile = std::size_t{256} << 20, kMaxValues = 1u << 20, kMaxKeys = 4096;
constexpr int kMaxDepth = 64;

class Reader {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  Reader(TokenizerJson& out, bool bare) : out_(out), builder_(out.root, false), bare_(bare) {}

  bool null() { return table_ ? bad_entry() : element() && builder_.null(); }
  bool boolean(bool v) { return table_ ? bad_entry() : element() && builder_.boolean(v); }
  bool number_integer(number_integer_t v) {
    return table_ ? number(static_cast<double>(v), v) : element() && builder_.number_integer(v);
  }
  bool number_unsigned(number_unsigned_t v) {
    return table_ ? number(static_cast<double>(v), static_cast<std::int64_t>(std::min<std::uint64_t>(v, INT64_MAX)))
                  : element() && builder_.number_unsigned(v);
  }
  bool number_float(number_float_t v, const string_t& s) {
    if (!table_) return element() && builder_.number_float(v, s);
    return kind_ == Kind::scored ? number(v, 0) : bad_entry();
  }
  bool string(string_t& v) { return table_ ? text(v) : element() && builder_.string(v); }
  bool binary(binary_t&) { return fail("binary values are not JSON"); }

  bool start_object(std::size_t n) {
    if (table_) return bad_entry();
    if (at_vocabulary()) return open(Kind::ids);
    keys_.emplace_back();
    return deeper() && builder_.start_object(n);
  }
  bool key(string_t& k) {
    if (table_) return text(k);
    if (keys_.back().size() >= kMaxKeys) return fail(fmt::format("an object has more than {} keys", kMaxKeys));
    if (!keys_.back().insert(k).second) return fail(fmt::format("key '{}' is given twice", shown(k, 80)));
    if (depth_ == 1) top_ = k;
    key_ = k;
    return builder_.key(k);
  }
  bool end_object() {
    if (table_) return close();
    keys_.pop_back();
    --depth_;
    return builder_.end_object();
  }
  bool start_array(std::size_t n) {
    if (table_) {
      item_ = 0;
      return ++table_ == 2 && kind_ != Kind::ids ? true : bad_entry();
    }
    if (at_vocabulary()) return open(Kind::scored);
    if (depth_ == 2 && top_ == "model" && key_ == "merges") return open(Kind::merges);
    return deeper() && builder_.start_array(n);
  }
  bool end_array() {
    if (table_ == 2) {
      --table_;
      return item_ == 2 || bad_entry();
    }
    if (table_) return close();
    --depth_;
    return builder_.end_array();
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) {
    std::string text = e.what();
    if (auto cut = text.find("; last read"); cut != text.npos) text.resize(cut);
    if (auto cut = text.find("parse error"); cut != text.npos) text = text.substr(cut);
    position_ = position;
    return fail("not valid JSON: " + text);
  }

  const std::string& problem() const { return problem_; }
  std::size_t position() const { return position_; }

 private:
  enum class Kind { ids, scored, merges };

  bool at_vocabulary() const { return bare_ ? depth_ == 0 : depth_ == 2 && top_ == "model" && key_ == "vocab"; }
  bool open(Kind kind) {
    kind_ = kind;
    table_ = 1;
    (kind == Kind::merges ? out_.has_merges : out_.has_vocabulary) = true;
    return true;
  }
  bool close() {
    table_ = 0;
    return builder_.null();
  }
  bool text(const std::string& s) {
    if (s.size() > kMaxTokenBytes)
      return fail(fmt::format("a token of {} bytes, the limit is {}", s.size(), kMaxTokenBytes));
    if (out_.tokens.size() >= static_cast<std::size_t>(kMaxVocabulary))
      return fail(fmt::format("more than {} tokens", kMaxVocabulary));
    if (kind_ == Kind::merges) {
      if (out_.merges.size() >= 2 * static_cast<std::size_t>(kMaxVocabulary))
        return fail(fmt::format("more than {} merges", kMaxVocabulary));
      if (table_ == 2) return ++item_ <= 2 ? (out_.merges.add(s), true) : bad_entry();
      std::size_t space = s.find(' ');
      if (space == s.npos || space == 0 || space + 1 == s.size() || s.find(' ', space + 1) != s.npos)
        return bad_entry();
      out_.merges.add(std::string_view(s).substr(0, space));
      out_.merges.add(std::string_view(s).substr(space + 1));
      return true;
    }
    if (kind_ == Kind::scored && (table_ != 2 || item_++ != 0)) return bad_entry();
    out_.tokens.add(s);
    return true;
  }
  bool number(double value, std::int64_t whole) {
    if (kind_ == Kind::ids) return out_.ids.push_back(whole), true;
    if (kind_ != Kind::scored || table_ != 2 || item_++ != 1) return bad_entry();
    out_.scores.push_back(value);
    return true;
  }
  bool bad_entry() {
    if (kind_ == Kind::merges)
      return fail(fmt::format("merge {} must be \"left right\" or [\"left\", \"right\"]", out_.merges.size() / 2));
    std::string last = out_.tokens.size() ? shown(out_.tokens[out_.tokens.size() - 1], 60) : "";
    if (kind_ == Kind::ids) return fail(fmt::format("vocabulary: the id of '{}' must be a whole number", last));
    return fail(fmt::format("vocabulary: entries must be [\"token\", score], see behind '{}'", last));
  }
  bool fail(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
    return false;
  }
  bool element() {
    return ++values_ <= kMaxValues || fail(fmt::format("more than {} values outside of the vocabulary", kMaxValues));
  }
  bool deeper() {
    return ++depth_ > kMaxDepth ? fail(fmt::format("nested deeper than {} levels", kMaxDepth)) : element();
  }

  TokenizerJson& out_;
  nlohmann::detail::json_sax_dom_parser<Json> builder_;
  bool bare_;
  std::vector<std::set<std::string>> keys_;
  std::string top_, key_, problem_;
  std::size_t values_ = 0, position_ = 0;
  int depth_ = 0, table_ = 0, item_ = 0;  // table_: nesting level inside a table
  Kind kind_ = Kind::ids;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, std::string_view source, bool bare) {
  if (text.size() > kMaxFile) throw UserError("{}: {} bytes, the limit is {}", source, text.size(), kMaxFile);
  TokenizerJson out;
  Reader reader(out, bare);
  if (!Json::sax_parse(text, &reader)) {
    std::size_t at = std::min(reader.position(), text.size());
    auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw UserError("{}{}: {}", source, at ? fmt::format(":{}", line) : "", reader.problem());
  }
  return out;
}

void parse_merges(std::string_view text, std::string_view source, TokenizerJson& into) {
  into.has_merges = true;
  for (const auto [number, line] : Lines(text)) {
    if (line.empty() || line.starts_with("#version")) continue;
    std::size_t space = line.find(' ');
    if (space == line.npos || space == 0 || space + 1 == line.size() || line.find(' ', space + 1) != line.npos)
      throw UserError("{}:{}: a merge is two tokens with a space between", source, number);
    if (into.merges.size() >= 2 * static_cast<std::size_t>(kMaxVocabulary))
      throw UserError("{}:{}: more than {} merges", source, number, kMaxVocabulary);
    into.merges.add(line.substr(0, space));
    into.merges.add(line.substr(space + 1));
  }
}

}  // namespace dml
