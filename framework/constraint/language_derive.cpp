// Derivatives of expressions by code points.
#include <algorithm>

#include "constraint/language.h"

namespace dml {
namespace {

using Id = Languages::Id;
using Transition = Languages::Transition;

// Merges two lists of transitions: `both` is called with the targets of ranges of code points, kNone where a list has
// none; once for each pair of targets, since a category has hundreds of ranges with the same ones.
template <class Both>
std::vector<Transition> merged(std::span<const Transition> a, std::span<const Transition> b, const Both& both) {
  std::vector<Transition> out;
  auto add = [&](char32_t first, char32_t last, Id next) {
    if (next == Languages::kNone) return;
    if (!out.empty() && out.back().next == next && out.back().last + 1 == first) out.back().last = last;
    else out.push_back({first, last, next});
  };
  std::unordered_map<std::uint64_t, Id> known;  // by the pair of targets
  const auto joined = [&](Id x, Id y) {
    const auto [it, fresh] = known.try_emplace(std::uint64_t{x} << 32 | y);
    if (fresh) it->second = both(x, y);
    return it->second;
  };
  std::size_t i = 0, j = 0;
  char32_t at = 0;
  while (i < a.size() || j < b.size()) {
    while (i < a.size() && a[i].last < at) ++i;
    while (j < b.size() && b[j].last < at) ++j;
    if (i == a.size() && j == b.size()) break;
    const char32_t a_first = i < a.size() ? std::max(a[i].first, at) : Languages::kLast + 1;
    const char32_t b_first = j < b.size() ? std::max(b[j].first, at) : Languages::kLast + 1;
    const char32_t first = std::min(a_first, b_first);
    const bool in_a = a_first == first, in_b = b_first == first;
    char32_t last = Languages::kLast;
    if (i < a.size()) last = std::min<char32_t>(last, in_a ? a[i].last : a_first - 1);
    if (j < b.size()) last = std::min<char32_t>(last, in_b ? b[j].last : b_first - 1);
    add(first, last, joined(in_a ? a[i].next : Languages::kNone, in_b ? b[j].next : Languages::kNone));
    at = last + 1;
  }
  return out;
}

// Merges lists of transitions pairwise, in O(n log n).
template <class Both>
std::vector<Transition> merged_by_pairs(std::vector<std::vector<Transition>> lists, const Both& both) {
  while (lists.size() > 1) {
    std::vector<std::vector<Transition>> next;
    for (std::size_t i = 0; i + 1 < lists.size(); i += 2) next.push_back(merged(lists[i], lists[i + 1], both));
    if (lists.size() % 2) next.push_back(std::move(lists.back()));
    lists = std::move(next);
  }
  return lists[0];
}

}  // namespace

// Computes the transitions of parts first, with a stack of its own: expressions are nested as deeply as a regular
// expression is long.
const std::vector<Transition>& Languages::raw_transitions(Id a) {
  if (raw_known_[a]) return raw_[a];
  for (std::vector<Id> open{a}; !open.empty();) {
    const Id at = open.back();
    const std::size_t before = open.size();
    if (!raw_known_[at])
      for (Id part : derived_from(at))
        if (!raw_known_[part]) open.push_back(part);
    if (open.size() > before) continue;
    open.pop_back();
    if (raw_known_[at]) continue;
    std::vector<Transition> out = derive(at);
    work_.spend(nodes_[at].data.size() + out.size());
    bytes_ += out.size() * sizeof(Transition);
    raw_[at] = std::move(out);
    raw_known_[at] = 1;
  }
  return raw_[a];
}

// The parts whose transitions derive() reads.
std::vector<Id> Languages::derived_from(Id a) const {
  const Node& n = nodes_[a];
  switch (n.kind) {
    case Kind::loop:
      return {loops_[n.data[0]]};
    case Kind::complement:
    case Kind::repetition:
      return {static_cast<Id>(n.data[0])};
    case Kind::concatenation:
      if (!nodes_[n.data[0]].nullable) return {static_cast<Id>(n.data[0])};
      [[fallthrough]];
    case Kind::either:
    case Kind::all_of:
      return {n.data.begin(), n.data.end()};
    default:
      return {};
  }
}

std::vector<Transition> Languages::derive(Id a) {
  const Node n = nodes_[a];  // a copy, since nodes_ grows below
  const auto part = [&](std::size_t i) { return static_cast<Id>(n.data[i]); };
  switch (n.kind) {
    case Kind::none:
    case Kind::empty_text:
    case Kind::label:
      return {};
    case Kind::loop:
      return raw_transitions(loops_[n.data[0]]);
    case Kind::characters: {
      std::vector<Transition> out;
      for (std::uint64_t c : n.data)
        out.push_back({static_cast<char32_t>(c >> 32), static_cast<char32_t>(c), kEmptyText});
      return out;
    }
    case Kind::concatenation: {
      std::vector<Transition> out = raw_transitions(part(0));
      for (auto& t : out) t.next = concatenation(t.next, part(1));
      if (!nodes_[part(0)].nullable) return out;
      const std::vector<Transition> behind = raw_transitions(part(1));
      return merged(out, behind, [&](Id x, Id y) { return either({x, y}); });
    }
    case Kind::either: {
      std::vector<std::vector<Transition>> lists;
      for (std::size_t i = 0; i < n.data.size(); ++i) lists.push_back(raw_transitions(part(i)));
      return merged_by_pairs(std::move(lists), [&](Id x, Id y) { return either({x, y}); });
    }
    case Kind::all_of: {
      std::vector<Transition> out = raw_transitions(part(0));
      for (std::size_t i = 1; i < n.data.size() && !out.empty(); ++i) {
        const std::vector<Transition> other = raw_transitions(part(i));
        out = merged(out, other, [&](Id x, Id y) { return all_of({x, y}); });
      }
      return out;
    }
    case Kind::complement: {
      const std::vector<Transition> inner = raw_transitions(part(0));
      const Transition everywhere{0, kLast, kAnything};
      return merged(inner, std::span(&everywhere, 1), [&](Id x, Id) { return complement(x); });
    }
    case Kind::repetition: {
      const auto least = static_cast<std::uint32_t>(n.data[1] >> 32), most = static_cast<std::uint32_t>(n.data[1]);
      const Id rest = repetition(part(0), least ? least - 1 : 0, most == kUnbounded ? most : most - 1);
      std::vector<Transition> out = raw_transitions(part(0));
      for (auto& t : out) t.next = concatenation(t.next, rest);
      return out;
    }
    case Kind::multiples: {
      std::vector<Transition> out;
      if (Id next = multiples_after(n, '.')) out.push_back({'.', '.', next});
      for (char32_t c = '0'; c <= '9'; ++c)
        if (Id next = multiples_after(n, c)) out.push_back({c, c, next});
      return out;
    }
  }
  return {};
}

}  // namespace dml
