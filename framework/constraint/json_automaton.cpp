#include "constraint/json_automaton.h"

#include <algorithm>

#include "constraint/regex.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr std::size_t kWaysAStep = 4;         // of WorkLimit: that read a byte
constexpr std::size_t kStateWork = 20;        // steps of WorkLimit to keep a new state
constexpr std::uint32_t kLongestNumber = 60;  // characters; a model could generate digits endlessly

}  // namespace

JsonAutomaton::JsonAutomaton(const Json& schema, std::string source, JsonSpace space)
    : schema_(schema, std::move(source), languages_, space == JsonSpace::one ? kLongestNumber : Schema::kNoLimit),
      space_(space) {
  schema_.look_ahead();
  if (!schema_.satisfiable(schema_.root())) return;
  const FrameId end = frame({.expects = Expects::end});
  start_ = state({{frame({.expects = Expects::value, .below = end, .id = schema_.root()})}, 0});
}

bool JsonAutomaton::may_end(State s) {
  for (FrameId id : states_[s].ways) {
    const Frame f = frames_[id];
    if (f.expects == Expects::end) return true;
    if (f.expects == Expects::digits && frames_[f.below].expects == Expects::end && languages_.accepts_end(f.id))
      return true;
  }
  return false;
}

std::size_t JsonAutomaton::data_bytes() const {
  constexpr std::size_t kKept = 2, kNode = 48;  // each is stored in a list and as a key
  return languages_.bytes() + frames_.size() * (kKept * sizeof(Frame) + kNode) +
         records_.size() * (sizeof(Record) + kNode) + states_.size() * (kKept * sizeof(StateData) + kNode) +
         kKept * way_count_ * sizeof(FrameId) + progress_bytes_ +
         progresses_.size() * (kKept * sizeof(Progress) + kNode) + names_.size() * kNode;
}

JsonAutomaton::State JsonAutomaton::step(State s, unsigned char byte) {
  const StateData before = states_[s];
  record_before_ = before.record;
  record_ = recorded(before.record, byte);
  ways_.clear();
  for (FrameId id : before.ways) read(id, byte);
  work_.spend(1 + (before.ways.size() + ways_.size()) / kWaysAStep);
  if (ways_.empty()) return kDead;
  std::sort(ways_.begin(), ways_.end());
  ways_.erase(std::unique(ways_.begin(), ways_.end()), ways_.end());
  if (ways_.size() > kMaxWays)
    throw UserError("the schema is too ambiguous: more than {} ways to read the text", kMaxWays);
  bool records = false;
  for (FrameId id : ways_) records = records || frames_[id].records;
  return state({ways_, records ? record_ : 0});
}

JsonAutomaton::FrameId JsonAutomaton::frame(Frame f) {
  f.records = f.records || (f.below != kNoFrame && frames_[f.below].records);
  auto [it, fresh] = frame_ids_.try_emplace(f, static_cast<FrameId>(frames_.size()));
  if (fresh) frames_.push_back(f);
  return it->second;
}

JsonAutomaton::State JsonAutomaton::state(StateData data) {
  auto [it, fresh] = state_ids_.try_emplace(std::move(data), static_cast<State>(states_.size()));
  if (fresh) {
    states_.push_back(it->first);
    way_count_ += it->first.ways.size();
    work_.spend(kStateWork);
  }
  return it->second;
}

// A record is a linked list from the last byte to the first.
std::uint32_t JsonAutomaton::recorded(std::uint32_t before, unsigned char byte) {
  auto [it, fresh] = record_ids_.try_emplace({before, byte}, static_cast<std::uint32_t>(records_.size()));
  if (fresh) records_.push_back({before, records_[before].size + 1, byte});
  return it->second;
}

std::string JsonAutomaton::record_text(std::uint32_t record, std::uint32_t begin) const {
  std::string out;
  for (; record && records_[record].size > begin; record = records_[record].before)
    out += static_cast<char>(records_[record].byte);
  std::reverse(out.begin(), out.end());
  return out;
}

// The value of a text that was read.
Json JsonAutomaton::recorded_value(std::string_view text) const {
  return parse_written_json(text, "a value", {.depth = kDeepest, .object_keys = SIZE_MAX});
}

std::uint32_t JsonAutomaton::progress(Progress p) {
  auto [it, fresh] = progress_ids_.try_emplace(std::move(p), static_cast<std::uint32_t>(progresses_.size()));
  if (fresh) {
    progresses_.push_back(it->first);
    progress_bytes_ += 2 * it->first.size() * sizeof(it->first[0]);
  }
  return it->second;
}

std::uint32_t JsonAutomaton::text_id(std::string text) {
  auto [it, fresh] = text_ids_.try_emplace(std::move(text), static_cast<std::uint32_t>(texts_.size()));
  if (fresh) {
    texts_.push_back(it->first);
    progress_bytes_ += 2 * it->first.size();
  }
  return it->second;
}

void JsonAutomaton::read(FrameId id, unsigned char byte) {
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
    if (f.space == kMaxSpace || (space_ == JsonSpace::one && !may_be_blank(f, byte))) return;
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

// Whether the canonical form has a blank here.
bool JsonAutomaton::may_be_blank(const Frame& f, unsigned char byte) const {
  const bool inside = f.expects == Expects::value && frames_[f.below].expects != Expects::end;
  return byte == ' ' && f.space == 0 && (inside || f.expects == Expects::name);
}

// The texts of a number; in the canonical form, if it has any.
JsonAutomaton::LanguageId JsonAutomaton::number(Formula f) {
  if (auto it = numbers_.find(f); it != numbers_.end()) return it->second;
  LanguageId all = schema_.scalar(f, JsonKind::number);
  if (space_ == JsonSpace::one && all != Languages::kNone) {
    const LanguageId usual =
        languages_.all_of({all, regex_match(languages_, "-?(?:0|[1-9][0-9]{0,17})(?:\\.[0-9]{0,15}[1-9])?")});
    if (!languages_.empty(usual)) all = usual;
  }
  return numbers_[f] = all;
}

void JsonAutomaton::read_value(const Frame& f, unsigned char byte) {
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
        next.progress =
            progress(Progress(array ? 1 + schema_.array(shape).counted.size() : words(schema_.object(shape))));
        next.records = array && schema_.array(shape).unique;
        keep(next);
      }
      return;
    }
    default:
      next.id = languages_.after(number(f.id), byte);
      if (next.id != Languages::kNone) keep(next);
  }
}

// After a value on top of `below` has ended, returns the frame that expects the rest. In an array with unique items,
// the value's text (the end of the record) is added to the values that later items must differ from.
JsonAutomaton::FrameId JsonAutomaton::behind_value(FrameId below, std::uint32_t record) {
  Frame f = frames_[below];
  if (f.expects != Expects::next_item || !schema_.array(f.id).unique) return below;
  Progress p = progresses_[f.progress];
  p.push_back(schema_.equal(recorded_value(record_text(record, f.begin))));
  std::sort(p.begin() + 1 + static_cast<std::ptrdiff_t>(schema_.array(f.id).counted.size()), p.end());
  f.progress = progress(std::move(p));
  f.begin = 0;
  return frame(f);
}

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
