// Checks the rules of a grammar, each in time linear in their symbols: clients write grammars with as many rules as the
// parser allows.
#include <algorithm>
#include <utility>
#include <vector>

#include "constraint/gbnf.h"
#include "core/error.h"

namespace dml {
namespace {

// Which rules have an alternative of which every symbol holds, where `holds` decides on terminals. A rule that is
// settled is taken off the open symbols of each alternative it stands in (Dowling and Gallier, 1984).
template <class Holds>
std::vector<char> settled_rules(const std::vector<GrammarRule>& rules, Holds holds) {
  struct Open {
    std::uint32_t rule;
    std::size_t symbols;
  };
  std::vector<Open> open;
  std::vector<std::vector<std::size_t>> uses(rules.size());  // by rule: positions in `open`
  std::vector<char> settled(rules.size(), 0);
  std::vector<std::uint32_t> next;
  auto settle = [&](std::uint32_t rule) {
    if (!std::exchange(settled[rule], 1)) next.push_back(rule);
  };
  for (std::uint32_t r = 0; r < rules.size(); ++r)
    for (auto& sequence : rules[r].alternatives) {
      if (!std::ranges::all_of(sequence, [&](auto& s) { return !s.terminal || holds(s); })) continue;
      open.push_back({r, 0});
      for (auto& s : sequence)
        if (!s.terminal) uses[s.id].push_back(open.size() - 1), ++open.back().symbols;
      if (open.back().symbols == 0) settle(r);
    }
  while (!next.empty()) {
    const std::uint32_t rule = next.back();
    next.pop_back();
    for (std::size_t use : uses[rule])
      if (--open[use].symbols == 0) settle(open[use].rule);
  }
  return settled;
}

// Edges to rules that may come first in a rule; `grows`: other symbols follow.
struct Edge {
  std::uint32_t to;
  bool grows;
};
using Edges = std::vector<std::vector<Edge>>;

Edges first_rules(const std::vector<GrammarRule>& rules, const std::vector<char>& empty) {
  Edges first(rules.size());
  for (std::size_t r = 0; r < rules.size(); ++r)
    for (auto& sequence : rules[r].alternatives)
      for (std::size_t i = 0; i < sequence.size() && !sequence[i].terminal; ++i) {
        first[r].push_back({sequence[i].id, i + 1 < sequence.size()});
        if (!empty[sequence[i].id]) break;
      }
  return first;
}

// The number of each rule's strongly connected component: rules that reach each other have the same one (Tarjan,
// "Depth-first search and linear graph algorithms", 1972; the calls on a stack of its own).
std::vector<std::uint32_t> components(const Edges& edges) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  const auto n = static_cast<std::uint32_t>(edges.size());
  std::vector<std::uint32_t> component(n, kNone), number(n, kNone), lowest(n), path;
  struct Call {
    std::uint32_t rule;
    std::size_t edge;
  };
  std::vector<Call> calls;
  std::uint32_t numbers = 0;
  auto enter = [&](std::uint32_t rule) {
    number[rule] = lowest[rule] = numbers++;
    path.push_back(rule);
    calls.push_back({rule, 0});
  };
  for (std::uint32_t begin = 0; begin < n; ++begin) {
    if (number[begin] == kNone) enter(begin);
    while (!calls.empty()) {
      auto& [rule, edge] = calls.back();
      const std::uint32_t at = rule;
      if (edge < edges[at].size()) {
        const std::uint32_t to = edges[at][edge++].to;
        if (number[to] == kNone) enter(to);
        else if (component[to] == kNone) lowest[at] = std::min(lowest[at], number[to]);
        continue;
      }
      while (lowest[at] == number[at] && component[at] == kNone) {  // the path from here on is a component
        component[path.back()] = at;
        path.pop_back();
      }
      calls.pop_back();
      if (!calls.empty()) lowest[calls.back().rule] = std::min(lowest[calls.back().rule], lowest[at]);
    }
  }
  return component;
}

}  // namespace

void check_grammar(GrammarRules& grammar, std::string_view source) {
  auto& rules = grammar.rules;
  const auto possible = [&](const GrammarSymbol& terminal) { return !grammar.sets[terminal.id].empty(); };
  const std::vector<char> ends = settled_rules(rules, possible);
  const std::vector<char> empty = settled_rules(rules, [](const GrammarSymbol&) { return false; });
  if (!ends[grammar.root]) throw UserError("{}: the rule 'root' allows no text at all: it never ends", source);
  for (auto& rule : rules)
    std::erase_if(rule.alternatives, [&](auto& sequence) {
      return std::ranges::any_of(sequence, [&](auto& s) { return s.terminal ? !possible(s) : !ends[s.id]; });
    });
  const Edges first = first_rules(rules, empty);
  const std::vector<std::uint32_t> component = components(first);
  for (std::size_t r = 0; r < rules.size(); ++r)
    for (const Edge& edge : first[r])
      // x* with a possibly empty x recurs with nothing left to do, which is harmless.
      if (edge.grows && component[r] == component[edge.to] && !(rules[r].name.empty() && empty[edge.to]))
        throw UserError("{}: {} is left-recursive: it begins with itself, which is not supported", source,
                        rules[r].name.empty() ? "a repetition" : fmt::format("rule '{}'", rules[r].name));
}

}  // namespace dml
