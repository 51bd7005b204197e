// Reads JSON text byte by byte against a Schema. JSON is parsed in one way only, so all ways in which the schema may still be
// satisfied are at the same place of the text: a state is a set of stacks of frames, one for each way. Frames are kept once
// and know the one below, so that states are short lists of numbers and equal ones are one.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "constraint/automaton.h"
#include "constraint/schema.h"
#include "constraint/utf8.h"
#include "core/error.h"
#include "core/json.h"

namespace dml {
namespace {

using Formula = Schema::Formula;
using LanguageId = Languages::Id;
using FrameId = std::uint32_t;

constexpr std::uint32_t kMostSpace = 20;     // bytes of white space between two tokens: a model may write it for ever
constexpr std::size_t kMostWays = 5000;
constexpr std::uint32_t kDeepest = 200;      // arrays and objects within each other
constexpr FrameId kNoFrame = UINT32_MAX;

// What a stack expects next.
enum class Expects : std::uint8_t {
  value,          // id: formula
  first_item,     // behind '[': an item or ']'. id: array shape; progress
  next_item,      // behind an item: ',' or ']'
  first_member,   // behind '{': a name or '}'. id: object shape; progress
  next_member,    // behind a member: ',' or '}'
  name,           // behind ',' in an object: a name
  colon,          // behind a name; id: object shape, detail: the member's group
  text,           // in a string that is a value. id: language
  name_text,      // in a name. id: language with labels, detail: object shape
  digits,         // in a number. id: language
  word,           // in null, true, false. id: which, detail: letters read
  end             // behind the whole value
};

// How far a character of a string has been read, beside PartialCodePoint.
enum class Escape : std::uint8_t { none, backslash, hex, low_backslash, low_u, low_hex };

struct Frame {
  Expects expects;
  Escape escape = Escape::none;
  bool records = false;        // this frame or one below needs the text read so far
  std::uint8_t space = 0;      // bytes of white space just read
  std::uint8_t digits = 0;     // hexadecimal digits read
  std::uint8_t missing = 0;    // PartialCodePoint
  char32_t first = 0, last = 0;  // PartialCodePoint; of an escape, first: the value of its digits, last: the high surrogate
  FrameId below = kNoFrame;
  std::uint32_t id = 0, detail = 0, progress = 0, depth = 0, begin = 0;  // begin: where the item or name began in the record
  bool operator==(const Frame&) const = default;
};

struct FrameHash {
  std::size_t operator()(const Frame& f) const {
    std::size_t h = 0;
    for (std::uint64_t x : {std::uint64_t(f.expects) | std::uint64_t(f.escape) << 8 | std::uint64_t(f.records) << 16 |
                                std::uint64_t(f.space) << 24 | std::uint64_t(f.digits) << 32 | std::uint64_t(f.missing) << 40,
                            std::uint64_t(f.first) << 32 | f.last, std::uint64_t(f.below) << 32 | f.id,
                            std::uint64_t(f.detail) << 32 | f.progress, std::uint64_t(f.depth) << 32 | f.begin})
      h = (h ^ x) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return h;
  }
};

// How far an array or object is: counts, and what has been seen.
using Progress = std::vector<std::uint32_t>;

class JsonAutomaton final : public Automaton {
 public:
  JsonAutomaton(const Json& schema, std::string source, JsonSpace space)
      : schema_(schema, std::move(source), languages_), space_(space) {
    if (!schema_.satisfiable(schema_.root())) return;
    const FrameId end = frame({.expects = Expects::end});
    start_ = state({{frame({.expects = Expects::value, .below = end, .id = schema_.root()})}, 0});
  }
  State start() override { return start_; }
  bool may_end(State s) override {
    for (FrameId id : states_[s].ways) {
      const Frame f = frames_[id];
      if (f.expects == Expects::end) return true;
      if (f.expects == Expects::digits && frames_[f.below].expects == Expects::end && languages_.accepts_end(f.id)) return true;
    }
    return false;
  }

 private:
  struct StateData {
    std::vector<FrameId> ways;
    std::uint32_t record;  // the text since the first frame that needs it
    bool operator<(const StateData& o) const { return std::tie(record, ways) < std::tie(o.record, o.ways); }
  };

  State step(State s, unsigned char byte) override {
    const StateData before = states_[s];
    record_before_ = before.record;
    record_ = recorded(before.record, byte);
    ways_.clear();
    for (FrameId id : before.ways) read(id, byte);
    if (ways_.empty()) return kDead;
    std::sort(ways_.begin(), ways_.end());
    ways_.erase(std::unique(ways_.begin(), ways_.end()), ways_.end());
    if (ways_.size() > kMostWays) throw UserError("the schema is too ambiguous: more than {} ways to read the text", kMostWays);
    bool records = false;
    for (FrameId id : ways_) records = records || frames_[id].records;
    return state({ways_, records ? record_ : 0});
  }

  // --- frames, states, records, progress: each kept once

  FrameId frame(Frame f) {
    f.records = f.records || (f.below != kNoFrame && frames_[f.below].records);
    auto [it, fresh] = frame_ids_.try_emplace(f, static_cast<FrameId>(frames_.size()));
    if (fresh) frames_.push_back(f);
    return it->second;
  }
  State state(StateData data) {
    auto [it, fresh] = state_ids_.try_emplace(std::move(data), static_cast<State>(states_.size()));
    if (fresh) states_.push_back(it->first);
    return it->second;
  }
  // Records are lists from the last byte to the first.
  std::uint32_t recorded(std::uint32_t before, unsigned char byte) {
    auto [it, fresh] = record_ids_.try_emplace({before, byte}, static_cast<std::uint32_t>(records_.size()));
    if (fresh) records_.push_back({before, records_[before].size + 1, byte});
    return it->second;
  }
  std::string record_text(std::uint32_t record, std::uint32_t begin) const {
    std::string out;
    for (; record && records_[record].size > begin; record = records_[record].before) out += static_cast<char>(records_[record].byte);
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::uint32_t progress(Progress p) {
    auto [it, fresh] = progress_ids_.try_emplace(std::move(p), static_cast<std::uint32_t>(progresses_.size()));
    if (fresh) progresses_.push_back(it->first);
    return it->second;
  }

  std::uint32_t text_id(std::string text) {
    auto [it, fresh] = text_ids_.try_emplace(std::move(text), static_cast<std::uint32_t>(texts_.size()));
    if (fresh) texts_.push_back(it->first);
    return it->second;
  }

  // --- reading

  void keep(Frame f) { ways_.push_back(frame(f)); }

  void read(FrameId id, unsigned char byte) {
    Frame f = frames_[id];
    const bool space = byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
    switch (f.expects) {
      case Expects::text:
      case Expects::name_text:
        return read_text(f, byte);
      case Expects::digits:
        if (LanguageId next = languages_.after(f.id, byte)) {
          f.id = next;
          return keep(f);
        }
        if (!languages_.accepts_end(f.id)) return;
        return read(behind_value(f.below, record_before_), byte);
      case Expects::word: {
        const std::string_view word = kWords[f.id];
        if (word[f.detail] != static_cast<char>(byte)) return;
        if (++f.detail < word.size()) return keep(f);
        return ways_.push_back(behind_value(f.below, record_));
      }
      case Expects::end:
        return;
      default:
        break;
    }
    if (space) {
      if (f.space == kMostSpace || (space_ == JsonSpace::one && !may_be_blank(f, byte))) return;
      ++f.space;
      return keep(f);
    }
    f.space = 0;
    switch (f.expects) {
      case Expects::value:
        return read_value(f, byte);
      case Expects::first_item:
        if (byte == ']') return end_array(f);
        return begin_item(f, byte);
      case Expects::next_item:
        if (byte == ']') return end_array(f);
        if (byte == ',' && item_possible(f)) begin_item(f, std::nullopt);
        return;
      case Expects::first_member:
      case Expects::next_member:
        if (byte == '}') return end_object(f);
        if (f.expects == Expects::first_member && byte == '"') return begin_name(f);
        if (f.expects == Expects::next_member && byte == ',' && names(f.id, f.progress) != Languages::kNone) {
          f.expects = Expects::name;
          keep(f);
        }
        return;
      case Expects::name:
        if (byte == '"') begin_name(f);
        return;
      case Expects::colon:
        if (byte == ':') begin_member(f);
        return;
      default:
        DML_CHECK(false);
    }
  }

  // Whether one blank is usual here.
  bool may_be_blank(const Frame& f, unsigned char byte) const {
    const bool inside = f.expects == Expects::value && frames_[f.below].expects != Expects::end;
    return byte == ' ' && f.space == 0 && (inside || f.expects == Expects::name);
  }

  void read_value(const Frame& f, unsigned char byte) {
    Frame next{.expects = Expects::digits, .below = f.below, .depth = f.depth};
    auto word = [&](JsonKind kind, std::uint32_t which) {
      if (schema_.scalar(f.id, kind) == Languages::kNone) return;
      next.expects = Expects::word;
      next.id = which;
      next.detail = 1;
      keep(next);
    };
    switch (byte) {
      case 'n':
        return word(JsonKind::null, 0);
      case 't':
        return word(JsonKind::yes, 1);
      case 'f':
        return word(JsonKind::no, 2);
      case '"':
        next.expects = Expects::text;
        next.id = schema_.scalar(f.id, JsonKind::string);
        if (next.id != Languages::kNone) keep(next);
        return;
      case '[':
      case '{': {
        if (f.depth == kDeepest) return;
        next.depth = f.depth + 1;
        const bool array = byte == '[';
        for (std::uint32_t shape : std::vector(array ? schema_.arrays(f.id) : schema_.objects(f.id))) {
          next.expects = array ? Expects::first_item : Expects::first_member;
          next.id = shape;
          next.progress = progress(Progress(array ? 1 + schema_.array(shape).counted.size() : words(schema_.object(shape))));
          next.records = array && schema_.array(shape).unique;
          keep(next);
        }
        return;
      }
      default:
        next.id = languages_.after(schema_.scalar(f.id, JsonKind::number), byte);
        if (next.id != Languages::kNone) keep(next);
    }
  }

  // --- strings

  // The code point has been read: on with the string's language.
  void character(Frame f, char32_t c) {
    f.id = languages_.after(f.id, c);
    if (f.id == Languages::kNone) return;
    f.escape = Escape::none;
    f.missing = f.digits = 0;
    f.first = f.last = 0;
    keep(f);
  }

  void read_text(Frame f, unsigned char byte) {
    auto go_on = [&](Escape e) {
      f.escape = e;
      keep(f);
    };
    switch (f.escape) {
      case Escape::none: {
        PartialCodePoint c{f.missing, f.first, f.last};
        if (c.complete()) {
          if (byte == '"') return end_text(f);
          if (byte == '\\') {
            if (languages_.continues_in(f.id, 0, Languages::kLast)) go_on(Escape::backslash);
            return;
          }
          if (byte < 0x20) return;
        }
        if (!c.read(byte)) return;
        if (c.complete()) return character(f, c.first);
        if (!languages_.continues_in(f.id, c.first, c.last)) return;
        f.missing = c.missing, f.first = c.first, f.last = c.last;
        return keep(f);
      }
      case Escape::backslash: {
        if (byte == 'u') {
          f.digits = 0, f.first = 0;
          return go_on(Escape::hex);
        }
        static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
        if (auto at = kFrom.find(static_cast<char>(byte)); at != std::string_view::npos) character(f, static_cast<unsigned char>(kTo[at]));
        return;
      }
      case Escape::low_backslash:
        if (byte == '\\') go_on(Escape::low_u);
        return;
      case Escape::low_u:
        f.digits = 0, f.first = 0;
        if (byte == 'u') go_on(Escape::low_hex);
        return;
      case Escape::hex:
      case Escape::low_hex:
        return read_hex(f, byte);
    }
  }

  void read_hex(Frame f, unsigned char byte) {
    const unsigned char low = byte | 32;
    char32_t digit;
    if (byte >= '0' && byte <= '9')
      digit = byte - '0';
    else if (low >= 'a' && low <= 'f')
      digit = low - 'a' + 10;
    else
      return;
    f.first = f.first << 4 | digit;
    ++f.digits;
    const int bits = 4 * (4 - f.digits);
    const char32_t from = f.first << bits, to = from | ((char32_t{1} << bits) - 1);  // what the four digits may be
    auto astral = [&](char32_t high_from, char32_t high_to, char32_t low_from, char32_t low_to) {
      return languages_.continues_in(f.id, 0x10000 + ((high_from - 0xD800) << 10) + (low_from - 0xDC00),
                                     0x10000 + ((high_to - 0xD800) << 10) + (low_to - 0xDC00));
    };
    if (f.escape == Escape::low_hex) {
      const char32_t a = std::max<char32_t>(from, 0xDC00), b = std::min<char32_t>(to, 0xDFFF);
      if (a > b || !astral(f.last, f.last, a, b)) return;
      if (f.digits == 4) return character(f, 0x10000 + ((f.last - 0xD800) << 10) + (a - 0xDC00));
      return keep(f);
    }
    const char32_t high_a = std::max<char32_t>(from, 0xD800), high_b = std::min<char32_t>(to, 0xDBFF);
    const bool pair = high_a <= high_b && astral(high_a, high_b, 0xDC00, 0xDFFF);
    bool single = from < 0xD800 && languages_.continues_in(f.id, from, std::min<char32_t>(to, 0xD7FF));
    single = single || (to > 0xDFFF && languages_.continues_in(f.id, std::max<char32_t>(from, 0xE000), to));
    if (!pair && !single) return;
    if (f.digits < 4) return keep(f);
    if (single) return character(f, f.first);
    f.last = f.first;
    f.escape = Escape::low_backslash;
    keep(f);
  }

  void end_text(const Frame& f) {
    if (!languages_.accepts_end(f.id)) return;
    if (f.expects == Expects::text) return ways_.push_back(behind_value(f.below, record_));
    for (std::uint32_t group : languages_.labels(f.id)) {
      Frame object = frames_[f.below];
      const auto& s = schema_.object(object.id);
      Progress p = progresses_[object.progress];
      if (!s.groups[group].single && counts_names(s, p)) {
        const std::string raw = record_text(record_before_, f.begin);
        p.push_back(text_id(parse_json('"' + raw + '"', "a name").get<std::string>()));
        std::sort(p.begin() + static_cast<std::ptrdiff_t>(words(s)), p.end());
      }
      object.expects = Expects::colon;
      object.detail = group;
      object.progress = progress(with_member(s, std::move(p), group));
      keep(object);
    }
  }

  // --- arrays. Progress: items so far (as far as they matter), then how many of each count.

  std::uint32_t item_limit(const Schema::ArrayShape& s) const {
    std::uint32_t out = std::max<std::uint32_t>(static_cast<std::uint32_t>(s.prefix.size()), s.least);
    for (auto& c : s.counted) out = std::max(out, c.from);
    if (s.most != Schema::kNoLimit) out = std::max(out, s.most);
    return out;
  }
  Formula item_formula(const Frame& f) {
    const auto& s = schema_.array(f.id);
    const std::uint32_t i = progresses_[f.progress][0];
    return i < s.prefix.size() ? s.prefix[i] : s.rest;
  }
  bool item_possible(const Frame& f) {
    const auto& s = schema_.array(f.id);
    return progresses_[f.progress][0] < s.most && schema_.satisfiable(item_formula(f));
  }
  void end_array(const Frame& f) {
    const auto& s = schema_.array(f.id);
    const Progress& p = progresses_[f.progress];
    if (p[0] < s.least) return;
    for (std::size_t i = 0; i < s.counted.size(); ++i)
      if (p[1 + i] < s.counted[i].least || p[1 + i] > s.counted[i].most) return;
    ways_.push_back(behind_value(f.below, record_));
  }
  // Whether what must still be counted fits.
  bool finishable(const Schema::ArrayShape& s, const Progress& p) {
    for (std::size_t i = 0; i < s.counted.size(); ++i) {
      const auto& c = s.counted[i];
      if (p[1 + i] > c.most) return false;
      if (p[1 + i] >= c.least) continue;
      if (s.most != Schema::kNoLimit && s.most - std::min(s.most, std::max(p[0], c.from)) < c.least - p[1 + i]) return false;
      bool somewhere = (s.most == Schema::kNoLimit || s.most > s.prefix.size()) && schema_.satisfiable(schema_.both(s.rest, c.item));
      for (std::size_t k = std::max(p[0], c.from); k < s.prefix.size(); ++k)
        somewhere = somewhere || schema_.satisfiable(schema_.both(s.prefix[k], c.item));
      if (!somewhere) return false;
    }
    return true;
  }
  // An item begins, with its first byte or behind a comma. For each count it is one of those or not.
  void begin_item(const Frame& f, std::optional<unsigned char> byte) {
    if (!item_possible(f)) return;
    const Schema::ArrayShape s = schema_.array(f.id);
    const Progress p = progresses_[f.progress];
    std::vector<std::pair<Formula, Progress>> ways{{item_formula(f), p}};
    ways[0].second[0] = std::min(p[0] + 1, item_limit(s));
    for (std::size_t i = 0; i < s.counted.size(); ++i) {
      const auto& c = s.counted[i];
      if (p[0] < c.from) continue;
      if (c.most == Schema::kNoLimit && p[1 + i] >= c.least) continue;
      std::vector<std::pair<Formula, Progress>> next;
      for (auto& [formula, after] : ways) {
        // With a limit every item is either; without one it is enough to find some.
        next.push_back({c.most == Schema::kNoLimit ? formula : schema_.both(formula, schema_.negation(c.item)), after});
        next.push_back({schema_.both(formula, c.item), after});
        ++next.back().second[1 + i];
      }
      ways = std::move(next);
    }
    for (std::uint32_t seen = 1 + static_cast<std::uint32_t>(s.counted.size()); seen < p.size(); ++seen)
      for (auto& way : ways) way.first = schema_.both(way.first, schema_.negation(p[seen]));
    for (auto& [formula, after] : ways) {
      if (!finishable(s, after) || !schema_.satisfiable(formula)) continue;
      Frame array = f;
      array.expects = Expects::next_item;
      array.progress = progress(after);
      array.begin = s.unique ? records_[byte ? record_before_ : record_].size : 0;
      const Frame item{.expects = Expects::value, .below = frame(array), .id = formula, .depth = f.depth};
      if (byte)
        read(frame(item), *byte);
      else
        keep(item);
    }
  }

  // --- objects. Progress: members so far (as far as they matter), which wanted ones were found, which names were seen; behind
  // that, while members still count, the other names.

  std::size_t words(const Schema::ObjectShape& s) const { return 2 + (s.groups.size() + 31) / 32; }

  Progress with_member(const Schema::ObjectShape& s, Progress p, std::uint32_t group) const {
    if (s.groups[group].single) p[2 + group / 32] |= 1u << group % 32;
    p[0] = std::min(p[0] + 1, s.most == Schema::kNoLimit ? s.least : s.most);
    if (!counts_names(s, p)) p.resize(words(s));
    return p;
  }
  // Whether another member of the same name would be counted twice.
  static bool counts_names(const Schema::ObjectShape& s, const Progress& p) { return p[0] < s.least && s.least > 1; }

  bool seen(const Progress& p, std::size_t group) const { return p[2 + group / 32] >> group % 32 & 1; }

  std::uint32_t required_left(const Schema::ObjectShape& s, const Progress& p) const {
    std::uint32_t n = 0;
    for (std::size_t i = 0; i < s.groups.size() && s.groups[i].single; ++i) n += s.groups[i].required && !seen(p, i);
    return n;
  }

  // The names that may come next, each with the label of its group.
  LanguageId names(std::uint32_t shape, std::uint32_t progress) {
    auto [it, fresh] = names_.try_emplace({shape, progress}, Languages::kNone);
    if (!fresh) return it->second;
    const Schema::ObjectShape s = schema_.object(shape);  // a copy: shapes are added below
    const Progress p = progresses_[progress];
    if (s.most != Schema::kNoLimit && p[0] >= s.most) return Languages::kNone;
    // No room but for those that must come.
    const bool only_required = s.most != Schema::kNoLimit && p[0] + required_left(s, p) >= s.most;
    const bool limited = s.most != Schema::kNoLimit || s.least > 0 || !s.wanted.empty();
    std::vector<std::pair<std::u32string, LanguageId>> single;
    std::vector<LanguageId> all;
    for (std::size_t i = 0; i < s.groups.size(); ++i) {
      const auto& m = s.groups[i];
      const auto group = static_cast<std::uint32_t>(i);
      const LanguageId mark = languages_.label(group);
      if (m.value == Schema::kFalse || (limited && member_ways(s, with_member(s, p, group), group).empty())) continue;
      if (m.single) {
        if (!seen(p, i) && (!only_required || m.required)) single.push_back({code_points(m.name), mark});
      } else if (!only_required) {
        LanguageId left = m.names;
        for (std::size_t k = words(s); k < p.size(); ++k)
          left = languages_.difference(left, languages_.literal(code_points(texts_[p[k]])));
        all.push_back(languages_.concatenation(left, mark));
      }
    }
    all.push_back(languages_.dictionary(std::move(single)));
    LanguageId out = languages_.either(std::move(all));
    if (!languages_.accepts_end(out) && languages_.transitions(out).empty()) out = Languages::kNone;
    return names_[{shape, progress}] = out;
  }

  void begin_name(const Frame& f) {
    const LanguageId language = names(f.id, f.progress);
    if (language == Languages::kNone) return;
    Frame object = f;
    object.expects = Expects::name;
    const auto& s = schema_.object(f.id);
    const bool records = counts_names(s, progresses_[f.progress]);
    keep({.expects = Expects::name_text, .records = records, .below = frame(object), .id = language, .depth = f.depth,
          .begin = records ? records_[record_].size : 0});
  }

  void begin_member(Frame object) {
    const std::uint32_t group = object.detail;
    const Schema::ObjectShape s = schema_.object(object.id);
    object.expects = Expects::next_member;
    object.detail = 0;
    for (auto& [formula, after] : member_ways(s, progresses_[object.progress], group)) {
      object.progress = progress(after);
      keep({.expects = Expects::value, .below = frame(object), .id = formula, .depth = object.depth});
    }
  }

  // What the value of a member of this group may be: one that is wanted, or more than one, or none. `p` counts it already.
  std::vector<std::pair<Formula, Progress>> member_ways(const Schema::ObjectShape& s, const Progress& p, std::uint32_t group) {
    const auto& member = s.groups[group];
    std::vector<std::pair<Formula, Progress>> ways{{member.value, p}};
    for (std::uint32_t i = 0; i < s.wanted.size(); ++i) {
      if (!(member.wanted >> i & 1) || (p[1] >> i & 1)) continue;
      const std::size_t n = ways.size();
      for (std::size_t k = 0; k < n; ++k) {
        ways.push_back({schema_.both(ways[k].first, s.wanted[i]), ways[k].second});
        ways.back().second[1] |= 1u << i;
      }
    }
    std::erase_if(ways, [&](auto& way) { return !schema_.satisfiable(way.first) || !object_finishable(s, way.second); });
    return ways;
  }

  // Whether the names that may still come suffice.
  bool object_finishable(const Schema::ObjectShape& s, const Progress& p) {
    std::uint32_t left = s.most == Schema::kNoLimit ? Schema::kNoLimit : s.most - std::min(s.most, p[0]);
    if (required_left(s, p) > left) return false;
    std::uint64_t possible = p[0];
    for (std::size_t i = 0; i < s.groups.size(); ++i) {
      const auto& m = s.groups[i];
      if (m.value != Schema::kFalse) possible = m.single ? possible + !seen(p, i) : possible + Schema::kNoLimit;
    }
    if (possible < s.least) return false;
    for (std::size_t w = 0; w < s.wanted.size(); ++w) {
      if (p[1] >> w & 1) continue;
      bool somewhere = false;
      for (std::size_t i = 0; i < s.groups.size() && !somewhere; ++i) {
        const auto& m = s.groups[i];
        somewhere = (m.wanted >> w & 1) && !(m.single && seen(p, i)) && left > (m.single && m.required ? 0 : required_left(s, p)) &&
                    schema_.satisfiable(schema_.both(m.value, s.wanted[w]));
      }
      if (!somewhere) return false;
    }
    return true;
  }

  void end_object(const Frame& f) {
    const auto& s = schema_.object(f.id);
    const Progress& p = progresses_[f.progress];
    if (p[0] < s.least || required_left(s, p) > 0) return;
    for (std::size_t i = 0; i < s.wanted.size(); ++i)
      if (!(p[1] >> i & 1)) return;
    ways_.push_back(behind_value(f.below, record_));
  }

  // A value has ended on top of `below`: what expects the rest. In an array of different items the value's text, the end of
  // the record, becomes a value that the next ones are not.
  FrameId behind_value(FrameId below, std::uint32_t record) {
    Frame f = frames_[below];
    if (f.expects != Expects::next_item || !schema_.array(f.id).unique) return below;
    Progress p = progresses_[f.progress];
    p.push_back(schema_.equal(parse_json(record_text(record, f.begin), "an item")));
    std::sort(p.begin() + 1 + static_cast<std::ptrdiff_t>(schema_.array(f.id).counted.size()), p.end());
    f.progress = progress(std::move(p));
    f.begin = 0;
    return frame(f);
  }

  static constexpr std::string_view kWords[] = {"null", "true", "false"};
  struct Record {
    std::uint32_t before, size;
    unsigned char byte;
  };

  Languages languages_;
  Schema schema_;
  JsonSpace space_;
  State start_ = kDead;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, FrameHash> frame_ids_;
  std::vector<StateData> states_;
  std::map<StateData, State> state_ids_;
  std::vector<Record> records_{{0, 0, 0}};
  std::map<std::pair<std::uint32_t, unsigned char>, std::uint32_t> record_ids_;
  std::vector<Progress> progresses_;
  std::map<Progress, std::uint32_t> progress_ids_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, LanguageId> names_;
  std::vector<std::string> texts_;
  std::map<std::string, std::uint32_t> text_ids_;
  std::vector<FrameId> ways_;  // of the step at work
  std::uint32_t record_ = 0, record_before_ = 0;
};

}  // namespace

std::unique_ptr<Automaton> schema_automaton(std::string_view json_schema, std::string_view source, JsonSpace space) {
  JsonLimits limits;
  limits.depth = 200;
  limits.object_keys = 1u << 16;
  return std::make_unique<JsonAutomaton>(parse_json(json_schema, source, limits), std::string(source), space);
}

std::unique_ptr<Automaton> json_object_automaton(JsonSpace space) {
  return schema_automaton(R"({"type": "object"})", "json_object", space);
}

}  // namespace dml
