#include "core/oniguruma.h"

#include <algorithm>
#include <optional>

#include "core/oniguruma_set.h"

namespace dml {
namespace {

class OnigurumaReader {
 public:
  explicit OnigurumaReader(std::string_view pattern) : pattern_(pattern), groups_(1) {}

  TranslatedPattern read() {
    while (at_ < pattern_.size()) read_item();
    close_options();
    return std::move(out_);
  }

 private:
  struct Group {
    std::size_t begin = 0;    // of its translation
    std::size_t options = 0;  // groups that (?i) and the like opened in it
    bool spaced = false;      // (?x): spaces and comments mean nothing
  };

  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  // Puts what was read since `from`, in the given form.
  void put(std::string_view text, std::size_t from) { out_.put(text, from); }
  void put_as_written(std::size_t bytes) {
    for (std::size_t end = std::min(at_ + bytes, pattern_.size()); at_ < end; ++at_) put({&pattern_[at_], 1}, at_);
  }
  // What a following quantifier repeats.
  void put_atom(std::string_view text, std::size_t from) {
    atom_ = out_.text.size();
    repeated_ = false;
    put(text, from);
  }
  void no_atom() { atom_.reset(); }

  void read_item() {
    const char c = pattern_[at_];
    if (groups_.back().spaced && skip_space()) return;
    if (c == '(') return read_group();
    if (c == ')') return end_group();
    if (c == '|') {
      no_atom();
      return put_as_written(1);
    }
    if (read_quantifier()) return;
    const std::size_t from = at_;
    if (c == '[') return put_atom(read_class(pattern_, at_), from);
    if (c == '\\') return read_escape();
    if (c == '{') return put_atom("\\{", at_++);
    put_atom(read_character(pattern_, at_, false), from);
  }

  bool skip_space() {
    const char c = pattern_[at_];
    if (c == '#') at_ = std::min(pattern_.find('\n', at_), pattern_.size() - 1);
    else if (std::string_view(" \t\n\r\f\v").find(c) == std::string_view::npos) return false;
    ++at_;
    return true;
  }

  void read_escape() {
    const std::size_t from = at_;
    if (auto set = read_set_escape(pattern_, at_, false)) return put_atom(set->expression(), from);
    const char e = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (e == 'O' || e == 'b' || e == 'B') {
      at_ += 2;
      return put_atom(e == 'O' ? "\\p{Any}" : word_border(e == 'B'), from);
    }
    // The same in PCRE2; it refuses \y and \Y.
    if (e != '\0' && std::string_view("NRXKAzZGyYkg").find(e) != std::string_view::npos) {
      put_atom("", from);
      put_as_written(2);
      if (e == 'k' || e == 'g') put_name();
      return;
    }
    put_atom(read_character(pattern_, at_, false), from);
  }

  // <name> or 'name'
  void put_name() {
    if (!next_is("<") && !next_is("'")) return;
    const std::size_t end = pattern_.find(next_is("<") ? '>' : '\'', at_ + 1);
    put_as_written(end == pattern_.npos ? end : end + 1 - at_);
  }

  void read_group() {
    if (next_is("(?#")) {
      at_ = std::min(pattern_.find(')', at_), pattern_.size() - 1) + 1;
      return;
    }
    if (read_options()) return;
    groups_.push_back({out_.text.size(), 0, groups_.back().spaced});
    no_atom();
    if (!next_is("(?")) return put_as_written(1);
    put_as_written(2);
    if (next_is("<=") || next_is("<!")) put_as_written(2);
    else if (next_is("<") || next_is("'")) put_name();
    else if (!next_is("(")) put_as_written(1);  // (?(1)…: its condition is read like a group
  }

  // (?imx-imx) or (?imx-imx:
  bool read_options() {
    const std::size_t end = pattern_.find_first_not_of("imx-", at_ + 2);
    if (!next_is("(?") || end == pattern_.npos || end == at_ + 2) return false;
    if (pattern_[end] != ':' && pattern_[end] != ')') return false;
    std::string options = "(?";
    bool on = true, spaced = groups_.back().spaced;
    for (char c : pattern_.substr(at_ + 2, end - at_ - 2)) {
      if (c == '-') on = false;
      if (c == 'x') spaced = on;
      else options += c == 'm' ? 's' : c;
    }
    if (pattern_[end] == ':') {
      groups_.push_back({out_.text.size(), 0, spaced});
    } else {
      groups_.back().options += 1;
      groups_.back().spaced = spaced;
    }
    no_atom();
    put(options + ":", at_);
    at_ = end + 1;
    return true;
  }

  void close_options() { put(std::string(groups_.back().options, ')'), at_ == 0 ? 0 : at_ - 1); }

  void end_group() {
    if (groups_.size() > 1) {
      close_options();
      atom_ = groups_.back().begin;
      repeated_ = false;
      groups_.pop_back();
    }
    put_as_written(1);
  }

  struct Interval {
    std::string text;
    std::size_t end;
    bool fixed;  // {3}, which has no reluctant form
  };
  std::optional<Interval> read_interval() const {
    if (!next_is("{")) return std::nullopt;
    const auto digits_end = [&](std::size_t at) {
      return std::min(pattern_.find_first_not_of("0123456789", at), pattern_.size());
    };
    const std::size_t low_end = digits_end(at_ + 1);
    const bool fixed = pattern_.substr(low_end, 1) != ",";
    const std::size_t end = fixed ? low_end : digits_end(low_end + 1);
    const bool from_zero = low_end == at_ + 1;
    if (pattern_.substr(end, 1) != "}" || (from_zero && end <= low_end + 1)) return std::nullopt;  // {} and {,} as well
    return Interval{(from_zero ? "{0" : "{") + std::string(pattern_.substr(at_ + 1, end - at_)), end + 1, fixed};
  }

  bool read_quantifier() {
    const std::size_t from = at_;
    std::string text;
    if (next_is("*") || next_is("+") || next_is("?")) {
      text = pattern_[at_++];
      if (next_is("?") || next_is("+")) text += pattern_[at_++];
    } else if (auto interval = read_interval()) {
      text = interval->text;
      at_ = interval->end;
      if (!interval->fixed && next_is("?")) text += pattern_[at_++];
    } else {
      return false;
    }
    if (atom_ && repeated_) {
      out_.insert(*atom_, "(?:");
      put(")", from);
    }
    put(text, from);
    repeated_ = true;
    return true;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  TranslatedPattern out_;
  std::vector<Group> groups_;        // that are open; the first is the pattern
  std::optional<std::size_t> atom_;  // where the translation of what a quantifier repeats begins
  bool repeated_ = false;            // it has a quantifier
};

}  // namespace

TranslatedPattern oniguruma_to_pcre2(std::string_view pattern) { return OnigurumaReader(pattern).read(); }

}  // namespace dml
