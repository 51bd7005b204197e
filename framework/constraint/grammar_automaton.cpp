// Automaton for llama.cpp's grammar notation (GBNF): rules of literals, character classes, alternatives and repetitions
// that may refer to each other and to themselves. A state is a set of stacks, one per way to derive the text so far; a
// stack is a position in a rule and the stack below, to return to.
#include <algorithm>
#include <map>
#include <set>

#include "constraint/automaton.h"
#include "constraint/gbnf.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr std::size_t kMaxWays = 20'000;

using Sequence = GrammarSequence;

class GrammarAutomaton final : public Automaton {
 public:
  GrammarAutomaton(std::string_view text, std::string_view source) {
    const GrammarRules parsed = parse_gbnf(text, source);
    rules_ = parsed.rules;
    std::vector<std::uint32_t> ways;
    std::set<std::uint32_t> visited;
    for (std::uint32_t i = 0; i < rules_[parsed.root].alternatives.size(); ++i)
      expand(stack({parsed.root, i, 0, kEnd}), ways, visited);
    start_ = state(std::move(ways), {});
  }
  State start() override { return start_; }
  bool may_end(State s) override {
    auto& ways = states_[s].ways;
    return states_[s].partial.complete() && std::find(ways.begin(), ways.end(), kEnd) != ways.end();
  }

 private:
  static constexpr std::uint32_t kEnd = UINT32_MAX;  // the empty stack
  struct Stack {
    std::uint32_t rule, alternative, position, below;
    auto operator<=>(const Stack&) const = default;
  };
  struct StateData {
    std::vector<std::uint32_t> ways;  // stacks before a terminal, or kEnd
    PartialCodePoint partial;
  };

  std::uint32_t stack(Stack s) {
    const auto& sequence = rules_[s.rule].alternatives[s.alternative];
    if (s.position == sequence.size()) return s.below;  // tail call: nothing to return to here
    auto [it, fresh] = stack_ids_.try_emplace(s, static_cast<std::uint32_t>(stacks_.size()));
    if (fresh) stacks_.push_back(s);
    return it->second;
  }
  const GrammarSymbol& symbol(const Stack& s) const { return rules_[s.rule].alternatives[s.alternative][s.position]; }

  // Adds the stacks, positioned before a terminal, that are reachable from this one without reading.
  void expand(std::uint32_t id, std::vector<std::uint32_t>& ways, std::set<std::uint32_t>& visited) {
    std::vector<std::uint32_t> work{id};
    while (!work.empty()) {
      id = work.back();
      work.pop_back();
      if (!visited.insert(id).second) continue;
      if (visited.size() > kMaxWays)
        throw UserError("the grammar is too ambiguous: more than {} ways to read the text", kMaxWays);
      if (id == kEnd || symbol(stacks_[id]).terminal) {
        ways.push_back(id);
        continue;
      }
      const Stack s = stacks_[id];
      const std::uint32_t rule = symbol(s).rule;
      const std::uint32_t behind = stack({s.rule, s.alternative, s.position + 1, s.below});
      for (std::uint32_t i = 0; i < rules_[rule].alternatives.size(); ++i) work.push_back(stack({rule, i, 0, behind}));
    }
  }
  State state(std::vector<std::uint32_t> ways, PartialCodePoint partial) {
    std::sort(ways.begin(), ways.end());
    auto [it, fresh] = state_ids_.try_emplace({ways, partial.missing, partial.first, partial.last},
                                              static_cast<State>(states_.size()));
    if (fresh) states_.push_back({std::move(ways), partial});
    return it->second;
  }
  State step(State s, unsigned char byte) override {
    PartialCodePoint partial = states_[s].partial;
    if (!partial.read(byte)) return kDead;
    std::vector<std::uint32_t> ways;
    std::set<std::uint32_t> visited;
    for (std::uint32_t id : std::vector(states_[s].ways)) {
      if (id == kEnd) continue;
      const Stack at = stacks_[id];
      const auto& set = symbol(at).set;
      if (std::none_of(set.begin(), set.end(),
                       [&](auto& c) { return c.first <= partial.last && partial.first <= c.last; }))
        continue;
      if (partial.complete()) expand(stack({at.rule, at.alternative, at.position + 1, at.below}), ways, visited);
      else ways.push_back(id);
    }
    if (ways.empty()) return kDead;
    return partial.complete() ? state(std::move(ways), {}) : state(std::move(ways), partial);
  }

  std::vector<GrammarRule> rules_;
  std::vector<Stack> stacks_;
  std::map<Stack, std::uint32_t> stack_ids_;
  std::vector<StateData> states_;
  std::map<std::tuple<std::vector<std::uint32_t>, std::uint8_t, char32_t, char32_t>, State> state_ids_;
  State start_ = 0;
};

}  // namespace

std::unique_ptr<Automaton> grammar_automaton(std::string_view gbnf, std::string_view source) {
  return std::make_unique<GrammarAutomaton>(gbnf, source);
}

}  // namespace dml
