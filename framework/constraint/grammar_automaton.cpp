// Automaton for llama.cpp's grammar notation (GBNF): rules of literals, character classes, alternatives and repetitions
// that may refer to each other and to themselves. A text may be derived in several ways; each is a stack, a position in
// a rule and the stack below, to return to. A state is the set of these ways and a partly read code point.
//
// Code points that are in the same terminals of the ways lead to the same ways, so the ways behind a text are computed
// once for, say, all letters.
#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "constraint/automaton.h"
#include "constraint/gbnf.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr std::size_t kMaxWays = 20'000;

class GrammarAutomaton final : public Automaton {
 public:
  GrammarAutomaton(std::string_view text, std::string_view source) : grammar_(parse_gbnf(text, source)) {
    std::vector<StackId> begin;
    for (std::uint32_t i = 0; i < grammar_.rules[grammar_.root].alternatives.size(); ++i)
      begin.push_back(stack({grammar_.root, i, 0, kEnd}));
    start_ = state({expanded(std::move(begin)), {}});
  }
  State start() override { return start_; }
  bool may_end(State s) override { return states_[s].partial.complete() && ways_[states_[s].ways].end; }

 private:
  using StackId = std::uint32_t;
  using WaysId = std::uint32_t;
  static constexpr StackId kEnd = UINT32_MAX;  // the empty stack

  struct Stack {
    std::uint32_t rule, alternative, position;
    StackId below;
    bool operator==(const Stack&) const = default;
  };
  struct StackHash {
    std::size_t operator()(const Stack& s) const {
      std::size_t h = 0;
      for (std::uint64_t x : {std::uint64_t{s.rule} << 32 | s.alternative, std::uint64_t{s.position} << 32 | s.below})
        h = (h ^ x) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
      return h;
    }
  };
  struct Ways {
    std::vector<StackId> stacks;                        // before a terminal; ascending
    bool end;                                           // the text may end
    std::vector<std::uint32_t> terminals;               // that the stacks are before; ascending
    std::map<std::vector<std::uint32_t>, WaysId> next;  // by the terminals that a code point is in
  };
  struct StateData {
    WaysId ways;
    PartialCodePoint partial;
  };

  StackId stack(Stack s) {
    const auto& sequence = grammar_.rules[s.rule].alternatives[s.alternative];
    if (s.position == sequence.size()) return s.below;  // tail call: nothing to return to here
    auto [it, fresh] = stack_ids_.try_emplace(s, static_cast<StackId>(stacks_.size()));
    if (fresh) {
      stacks_.push_back(s);
      visited_.push_back(0);
    }
    return it->second;
  }
  StackId behind(const Stack& s) { return stack({s.rule, s.alternative, s.position + 1, s.below}); }
  const GrammarSymbol& symbol(const Stack& s) const {
    return grammar_.rules[s.rule].alternatives[s.alternative][s.position];
  }

  // The ways that these stacks reach without reading.
  WaysId expanded(std::vector<StackId> open) {
    Ways out{};
    ++visit_;
    while (!open.empty()) {
      const StackId id = open.back();
      open.pop_back();
      if (id == kEnd) {
        out.end = true;
        continue;
      }
      if (visited_[id] == visit_) continue;
      visited_[id] = visit_;
      work_.spend(1);
      const Stack s = stacks_[id];
      const GrammarSymbol at = symbol(s);
      if (at.terminal) {
        out.stacks.push_back(id);
        out.terminals.push_back(at.id);
        continue;
      }
      const StackId after = behind(s);
      const auto alternatives = static_cast<std::uint32_t>(grammar_.rules[at.id].alternatives.size());
      for (std::uint32_t i = 0; i < alternatives; ++i) open.push_back(stack({at.id, i, 0, after}));
    }
    if (out.stacks.size() > kMaxWays)
      throw UserError("the grammar is too ambiguous: more than {} ways to read the text", kMaxWays);
    return ways(std::move(out));
  }
  WaysId ways(Ways w) {
    std::ranges::sort(w.stacks);
    std::ranges::sort(w.terminals);
    w.terminals.erase(std::unique(w.terminals.begin(), w.terminals.end()), w.terminals.end());
    auto [it, fresh] = way_ids_.try_emplace({w.stacks, w.end}, static_cast<WaysId>(ways_.size()));
    if (fresh) {
      way_bytes_ += 2 * w.stacks.size() * sizeof(StackId) + w.terminals.size() * sizeof(std::uint32_t);
      ways_.push_back(std::move(w));
    }
    return it->second;
  }
  State state(StateData data) {
    const auto key = std::tuple(data.ways, data.partial.missing, data.partial.first, data.partial.last);
    auto [it, fresh] = state_ids_.try_emplace(key, static_cast<State>(states_.size()));
    if (fresh) states_.push_back(data);
    return it->second;
  }
  // Whether the set has a code point from `first` to `last`.
  bool overlaps(std::uint32_t set, char32_t first, char32_t last) const {
    const auto& ranges = grammar_.sets[set];
    const auto it = std::ranges::lower_bound(ranges, first, {}, &CodePoints::last);
    return it != ranges.end() && it->first <= last;
  }

  State step(State s, unsigned char byte) override {
    auto [from, partial] = states_[s];
    if (!partial.read(byte)) return kDead;
    work_.spend(1 + ways_[from].terminals.size());
    std::vector<std::uint32_t> in;
    for (std::uint32_t terminal : ways_[from].terminals)
      if (overlaps(terminal, partial.first, partial.last)) in.push_back(terminal);
    if (in.empty()) return kDead;
    return partial.complete() ? state({after_terminals(from, in), {}}) : state({from, partial});
  }
  WaysId after_terminals(WaysId from, const std::vector<std::uint32_t>& in) {
    if (auto it = ways_[from].next.find(in); it != ways_[from].next.end()) return it->second;
    std::vector<StackId> next;
    work_.spend(ways_[from].stacks.size());
    for (StackId id : ways_[from].stacks)
      if (const Stack s = stacks_[id]; std::ranges::binary_search(in, symbol(s).id)) next.push_back(behind(s));
    const WaysId to = expanded(std::move(next));
    ways_[from].next.emplace(in, to);
    way_bytes_ += kNode + in.size() * sizeof(std::uint32_t);
    return to;
  }

  static constexpr std::size_t kNode = 48;  // of a map
  std::size_t data_bytes() const override {
    return stacks_.size() * (2 * sizeof(Stack) + sizeof(visited_[0]) + kNode) + way_bytes_ +
           ways_.size() * (2 * sizeof(Ways) + kNode) + states_.size() * (2 * sizeof(StateData) + kNode);
  }

  const GrammarRules grammar_;
  std::vector<Stack> stacks_;
  std::unordered_map<Stack, StackId, StackHash> stack_ids_;
  std::vector<std::uint64_t> visited_;  // by stack: the last visit
  std::uint64_t visit_ = 0;
  std::vector<Ways> ways_;
  std::map<std::pair<std::vector<StackId>, bool>, WaysId> way_ids_;
  std::size_t way_bytes_ = 0;  // of the vectors in ways_ and their copies
  std::vector<StateData> states_;
  std::map<std::tuple<WaysId, std::uint8_t, char32_t, char32_t>, State> state_ids_;
  State start_ = 0;
};

}  // namespace

std::unique_ptr<Automaton> grammar_automaton(std::string_view gbnf, std::string_view source) {
  return std::make_unique<GrammarAutomaton>(gbnf, source);
}

}  // namespace dml
