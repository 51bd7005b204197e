// Reads JSON text byte by byte against a Schema. JSON parses in only one way, so all alternatives in which the schema
// may still be satisfied are at the same position of the text: a state is a set of stacks of frames, one per
// alternative. Frames are interned and refer to the frame below, so states are short lists of numbers, and equal states
// are one.
//
// json_automaton.cpp reads values, json_strings.cpp the characters of strings and names, json_containers.cpp arrays and
// objects.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraint/automaton.h"
#include "constraint/schema.h"
#include "constraint/utf8.h"
#include "core/json.h"

namespace dml {

class JsonAutomaton final : public Automaton {
 public:
  JsonAutomaton(const Json& schema, std::string source, JsonSpace space);
  State start() override { return start_; }
  bool may_end(State s) override;

 private:
  using Formula = Schema::Formula;
  using LanguageId = Languages::Id;
  using FrameId = std::uint32_t;

  static constexpr std::uint32_t kMaxSpace =
      20;  // maximum white space between two tokens: a model could generate it endlessly
  static constexpr std::size_t kMaxWays = 5000;
  static constexpr std::uint32_t kDeepest = 200;  // maximum nesting of arrays and objects
  static constexpr FrameId kNoFrame = UINT32_MAX;

  // The expected next part of the text.
  enum class Expects : std::uint8_t {
    value,         // id: formula
    first_item,    // after '[': an item or ']'. id: array shape; progress
    next_item,     // after an item: ',' or ']'
    first_member,  // after '{': a name or '}'. id: object shape; progress
    next_member,   // after a member: ',' or '}'
    name,          // after ',' in an object: a name
    colon,         // after a name; id: object shape, detail: the member's group
    text,          // in a string that is a value. id: language
    name_text,     // in a name. id: language with labels, detail: object shape
    digits,        // in a number. id: language
    word,          // in null, true, false. id: which, detail: letters read
    end            // after the whole value
  };

  // Progress in an escape sequence, in addition to PartialCodePoint.
  enum class Escape : std::uint8_t { none, backslash, hex, low_backslash, low_u, low_hex };

  struct Frame {
    Expects expects;
    Escape escape = Escape::none;
    bool records = false;      // this frame or one below needs the text read so far (the record)
    std::uint8_t space = 0;    // bytes of white space just read
    std::uint8_t digits = 0;   // hexadecimal digits read
    std::uint8_t missing = 0;  // PartialCodePoint
    char32_t first = 0,
             last = 0;  // PartialCodePoint; of an escape, first: the value of its digits, last: the high surrogate
    FrameId below = kNoFrame;
    std::uint32_t id = 0, detail = 0, progress = 0, depth = 0,
                  begin = 0;  // begin: start of the item or name in the record
    bool operator==(const Frame&) const = default;
  };

  struct FrameHash {
    std::size_t operator()(const Frame& f) const {
      std::size_t h = 0;
      for (std::uint64_t x :
           {std::uint64_t(f.expects) | std::uint64_t(f.escape) << 8 | std::uint64_t(f.records) << 16 |
                std::uint64_t(f.space) << 24 | std::uint64_t(f.digits) << 32 | std::uint64_t(f.missing) << 40,
            std::uint64_t(f.first) << 32 | f.last, std::uint64_t(f.below) << 32 | f.id,
            std::uint64_t(f.detail) << 32 | f.progress, std::uint64_t(f.depth) << 32 | f.begin})
        h = (h ^ x) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
      return h;
    }
  };

  // Progress in an array or object: counts, and what was seen.
  using Progress = std::vector<std::uint32_t>;

  struct StateData {
    std::vector<FrameId> ways;
    std::uint32_t record;  // the text since the first frame that needs it
    bool operator<(const StateData& o) const { return std::tie(record, ways) < std::tie(o.record, o.ways); }
  };

  State step(State s, unsigned char byte) override;
  std::size_t data_bytes() const override;
  // Frames, states, records and progress are interned.
  FrameId frame(Frame f);
  State state(StateData data);
  std::uint32_t recorded(std::uint32_t before, unsigned char byte);
  std::string record_text(std::uint32_t record, std::uint32_t begin) const;
  std::uint32_t progress(Progress p);
  std::uint32_t text_id(std::string text);
  void keep(Frame f) { ways_.push_back(frame(f)); }
  Json recorded_value(std::string_view text) const;

  void read(FrameId id, unsigned char byte);
  bool may_be_blank(const Frame& f, unsigned char byte) const;
  void read_value(const Frame& f, unsigned char byte);
  LanguageId number(Formula f);

  // Strings (json_strings.cpp).
  void character(Frame f, char32_t c);
  bool may_be_escaped(LanguageId id);
  void read_text(Frame f, unsigned char byte);
  void read_hex(Frame f, unsigned char byte);
  void end_text(const Frame& f);

  // Arrays and objects (json_containers.cpp).
  std::uint32_t item_limit(const Schema::ArrayShape& s) const;
  Formula item_formula(const Frame& f);
  bool item_possible(const Frame& f);
  void end_array(const Frame& f);
  bool finishable(const Schema::ArrayShape& s, const Progress& p);
  void begin_item(const Frame& f, std::optional<unsigned char> byte);
  std::size_t words(const Schema::ObjectShape& s) const { return 2 + (s.groups.size() + 31) / 32; }
  Progress with_member(const Schema::ObjectShape& s, Progress p, std::uint32_t group) const;
  // Whether a second member of the same name would be counted again.
  static bool counts_names(const Schema::ObjectShape& s, const Progress& p) { return p[0] < s.least && s.least > 1; }
  // Whether a member of this single name has been read or, where names have an order, passed over.
  bool seen(const Progress& p, std::size_t group) const { return p[2 + group / 32] >> group % 32 & 1; }
  std::uint32_t required_left(const Schema::ObjectShape& s, const Progress& p) const;
  LanguageId names(std::uint32_t shape, std::uint32_t progress);
  LanguageId names_left(const Schema::ObjectShape& s, const Progress& p);
  void begin_name(const Frame& f);
  void begin_member(Frame object);
  std::vector<std::pair<Formula, Progress>> member_ways(const Schema::ObjectShape& s, const Progress& p,
                                                        std::uint32_t group);
  bool object_finishable(const Schema::ObjectShape& s, const Progress& p);
  void end_object(const Frame& f);
  FrameId behind_value(FrameId below, std::uint32_t record);

  static constexpr std::string_view kWords[] = {"null", "true", "false"};
  struct Record {
    std::uint32_t before, size;
    unsigned char byte;
  };

  Languages languages_{work_};
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
  std::map<Formula, LanguageId> numbers_;
  std::size_t way_count_ = 0;       // of all states
  std::size_t progress_bytes_ = 0;  // of all progress and names
  std::vector<FrameId> ways_;       // of the current step
  std::uint32_t record_ = 0, record_before_ = 0;
};

}  // namespace dml
