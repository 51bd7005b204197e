#include "constraint/language.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace dml {
namespace {

using Id = Languages::Id;
using Transition = Languages::Transition;

constexpr std::size_t kMaxNodes = 4'000'000;   // maximum number of expressions
constexpr std::size_t kMaxParts = 16'000'000;  // maximum number of all their parts
constexpr std::size_t kMaxSearched = 200'000;  // maximum number of states that one emptiness test visits

[[noreturn]] void too_complex() { throw UserError("the constraint is too complex: it needs too many states"); }

std::uint64_t packed(CodePoints c) { return std::uint64_t{c.first} << 32 | c.last; }

}  // namespace

std::size_t Languages::NodeHash::operator()(const Node& n) const {
  std::size_t h = static_cast<std::size_t>(n.kind) + 0x9E3779B97F4A7C15u;
  for (std::uint64_t d : n.data) h = (h ^ d) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
  return h;
}

std::vector<CodePoints> united(std::vector<CodePoints> set) {
  std::ranges::sort(set, {}, &CodePoints::first);
  std::vector<CodePoints> out;
  for (CodePoints c : set) {
    if (c.first > c.last) continue;
    if (!out.empty() && c.first <= out.back().last + 1) out.back().last = std::max(out.back().last, c.last);
    else out.push_back(c);
  }
  return out;
}

Languages::Languages(WorkLimit& work) : work_(work) {
  intern({Kind::none, false, true, {}});
  intern({Kind::empty_text, true, true, {}});
  intern({Kind::complement, true, true, {kNone}});
}

Id Languages::intern(Node node) {
  work_.spend(2 + node.data.size() / 4);
  auto [it, fresh] = ids_.try_emplace(std::move(node), static_cast<Id>(nodes_.size()));
  if (fresh) {
    parts_ += it->first.data.size();
    if (nodes_.size() >= kMaxNodes || parts_ > kMaxParts) {
      ids_.erase(it);
      too_complex();
    }
    nodes_.push_back(it->first);
    bytes_ += 2 * (sizeof(Node) + it->first.data.size() * sizeof(std::uint64_t)) + 2 * sizeof(raw_[0]) + 32;
    raw_.emplace_back();
    live_.emplace_back();
    raw_known_.push_back(0);
    live_known_.push_back(0);
    const Node& n = nodes_.back();
    const bool none = n.kind == Kind::none;
    auto inside = [&](std::uint64_t part) { return has_multiples_[part] != 0; };
    has_multiples_.push_back(n.kind == Kind::multiples || (n.kind == Kind::repetition && inside(n.data[0])) ||
                             (n.kind >= Kind::concatenation && n.kind <= Kind::complement &&
                              std::any_of(n.data.begin(), n.data.end(), inside)));
    emptiness_.push_back(none                       ? Emptiness::empty
                         : n.positive || n.nullable ? Emptiness::not_empty
                                                    : Emptiness::unknown);
  }
  return it->second;
}

Id Languages::characters(std::vector<CodePoints> set) {
  Node node{Kind::characters, false, true, {}};
  for (CodePoints c : united(std::move(set))) node.data.push_back(packed(c));
  return node.data.empty() ? kNone : intern(std::move(node));
}

Id Languages::literal(std::u32string_view text, Id tail) {
  for (std::size_t i = text.size(); i-- > 0;) tail = concatenation(character(text[i]), tail);
  return tail;
}

// Right-associative: (xy)b = x(yb). Without recursion, since a text of any length is such a chain.
Id Languages::concatenation(Id a, Id b) {
  if (a == kNone || b == kNone) return kNone;
  if (a == kEmptyText) return b;
  if (b == kEmptyText) return a;
  std::vector<Id> chain;
  for (; nodes_[a].kind == Kind::concatenation; a = static_cast<Id>(nodes_[a].data[1]))
    chain.push_back(static_cast<Id>(nodes_[a].data[0]));
  chain.push_back(a);
  while (!chain.empty()) {
    const Id first = chain.back();
    chain.pop_back();
    if (first == kAnything && b == kAnything) continue;
    b = intern({Kind::concatenation,
                nodes_[first].nullable && nodes_[b].nullable,
                nodes_[first].positive && nodes_[b].positive,
                {first, b}});
  }
  return b;
}

Id Languages::concatenation(std::initializer_list<Id> parts) {
  Id out = kEmptyText;
  for (auto it = std::rbegin(parts); it != std::rend(parts); ++it) out = concatenation(*it, out);
  return out;
}

Id Languages::either(std::vector<Id> parts) {
  std::vector<std::uint64_t> all;
  std::vector<CodePoints> set;  // character classes are merged
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Node& n = nodes_[parts[i]];
    if (parts[i] == kNone) continue;
    if (parts[i] == kAnything) return kAnything;
    if (n.kind == Kind::either) {
      for (std::uint64_t part : n.data) parts.push_back(static_cast<Id>(part));
    } else if (n.kind == Kind::characters) {
      for (std::uint64_t c : n.data) set.push_back({static_cast<char32_t>(c >> 32), static_cast<char32_t>(c)});
    } else {
      all.push_back(parts[i]);
    }
  }
  if (!set.empty()) all.push_back(characters(std::move(set)));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.empty()) return kNone;
  bool nullable = false, positive = true;
  for (std::uint64_t part : all) {
    nullable |= nodes_[part].nullable && part != kEmptyText;
    positive &= nodes_[part].positive;
  }
  // The empty text is redundant if another part accepts it, unless it is marked.
  if (nullable && all.front() == kEmptyText) all.erase(all.begin());
  if (all.size() == 1) return static_cast<Id>(all[0]);
  for (std::uint64_t part : all) nullable |= nodes_[part].nullable;
  return intern({Kind::either, nullable, positive, std::move(all)});
}

Id Languages::all_of(std::vector<Id> parts) {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == kNone) return kNone;
    if (parts[i] == kAnything) continue;
    const Node& n = nodes_[parts[i]];
    if (n.kind == Kind::all_of)
      for (std::uint64_t part : n.data) parts.push_back(static_cast<Id>(part));
    else all.push_back(parts[i]);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (all.empty()) return kAnything;
  if (all.size() == 1) return static_cast<Id>(all[0]);
  bool nullable = true;
  for (std::uint64_t part : all) nullable &= nodes_[part].nullable;
  if (std::binary_search(all.begin(), all.end(), std::uint64_t{kEmptyText})) return nullable ? kEmptyText : kNone;
  return intern({Kind::all_of, nullable, false, std::move(all)});
}

Id Languages::complement(Id a) {
  if (a == kAnything) return kNone;
  if (nodes_[a].kind == Kind::complement) return static_cast<Id>(nodes_[a].data[0]);
  return intern({Kind::complement, !nodes_[a].nullable, a == kNone, {a}});
}

Id Languages::repetition(Id a, std::uint32_t least, std::uint32_t most) {
  if (nodes_[a].nullable) least = 0;
  if (least > most) return kNone;
  if (most == 0) return kEmptyText;
  if (a == kNone || a == kEmptyText) return least == 0 ? kEmptyText : a;
  if (a == kAnything) return a;
  if (least == 1 && most == 1) return a;
  if (least == 0 && most == kUnbounded && a == any_character()) return kAnything;
  return intern({Kind::repetition, least == 0, nodes_[a].positive, {a, std::uint64_t{least} << 32 | most}});
}

// Goes through the sorted texts with the branchings of the tree above the current one on a stack.
Id Languages::dictionary(std::vector<std::pair<std::u32string, Id>> entries) {
  std::sort(entries.begin(), entries.end());
  struct Branching {
    std::size_t depth;
    std::vector<Id> branches;
  };
  std::vector<Branching> open;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::u32string& text = entries[i].first;
    std::size_t shared = 0;  // characters, with the next text
    if (i + 1 < entries.size())
      shared = static_cast<std::size_t>(std::ranges::mismatch(text, entries[i + 1].first).in1 - text.begin());
    if (open.empty() || open.back().depth < shared) open.push_back({shared, {}});
    const auto branch = [&](std::size_t end, Id tail) {
      const std::size_t begin = open.back().depth;
      open.back().branches.push_back(literal(std::u32string_view(text).substr(begin, end - begin), tail));
    };
    branch(text.size(), entries[i].second);
    while (open.back().depth > shared) {  // no later text passes through these
      auto [depth, branches] = std::move(open.back());
      open.pop_back();
      if (open.empty() || open.back().depth < shared) open.push_back({shared, {}});
      branch(depth, either(std::move(branches)));
    }
  }
  return open.empty() ? kNone : either(std::move(open.back().branches));
}

// data: divisor, remainder so far, places, places used (0: no point yet; else 1 + digits after it)
Id Languages::multiples(std::uint64_t divisor, std::uint32_t places) {
  DML_CHECK(divisor > 0 && divisor < std::uint64_t{1'000'000'000'000'000'000});  // ten times the divisor fits 64 bits
  return intern({Kind::multiples, true, false, {divisor, 0, places, 0}});
}

Id Languages::multiples_after(const Node& n, unsigned c) {
  const std::uint64_t divisor = n.data[0], places = n.data[2];
  std::uint64_t rest = n.data[1], used = n.data[3];
  auto times_ten = [&](std::uint64_t x, unsigned digit) { return (x * 10 + digit) % divisor; };
  if (c == '.') {
    if (used) return kNone;
    used = 1;
  } else if (used > places) {
    if (c != '0') return kNone;
  } else {
    rest = times_ten(rest, c - '0');
    if (used) ++used;
  }
  std::uint64_t scaled = rest;
  for (std::uint64_t i = used ? used - 1 : 0; i < places; ++i) scaled = times_ten(scaled, 0);
  return intern({Kind::multiples, scaled == 0, false, {divisor, rest, places, used}});
}

Id Languages::label(std::uint32_t mark) { return intern({Kind::label, true, true, {mark}}); }

Id Languages::loop(bool nullable) {
  loops_.push_back(kNone);
  return intern({Kind::loop, nullable, false, {loops_.size() - 1}});
}

std::vector<std::uint32_t> Languages::labels(Id a) const {
  std::vector<std::uint32_t> out;
  std::vector<Id> left{a};
  for (std::set<Id> seen; !left.empty();) {
    const Id at = left.back();
    left.pop_back();
    if (!seen.insert(at).second) continue;
    const Node& n = nodes_[at];
    if (n.kind == Kind::label) out.push_back(static_cast<std::uint32_t>(n.data[0]));
    if (n.kind == Kind::concatenation && nodes_[n.data[0]].nullable) left.push_back(static_cast<Id>(n.data[1]));
    if (n.kind == Kind::either)
      for (std::size_t i = n.data.size(); i-- > 0;) left.push_back(static_cast<Id>(n.data[i]));
  }
  return out;
}

bool Languages::empty(Id a) {
  if (emptiness_[a] != Emptiness::unknown) return emptiness_[a] == Emptiness::empty;
  // Depth-first search: the first language that accepts the empty string proves that all on the path are not empty.
  std::vector<Id> stack{a}, seen;
  std::unordered_map<Id, Id> from{{a, a}};
  while (!stack.empty()) {
    const Id at = stack.back();
    stack.pop_back();
    seen.push_back(at);
    if (from.size() > kMaxSearched) too_complex();
    work_.spend(1);
    for (const Transition& t : std::vector<Transition>(raw_transitions(at))) {
      if (emptiness_[t.next] == Emptiness::not_empty) {
        for (Id back = at;; back = from[back]) {
          emptiness_[back] = Emptiness::not_empty;
          if (back == a) return false;
        }
      }
      if (emptiness_[t.next] == Emptiness::unknown && from.emplace(t.next, at).second) stack.push_back(t.next);
    }
  }
  for (Id at : seen) emptiness_[at] = Emptiness::empty;
  return true;
}

std::span<const Transition> Languages::transitions(Id a) {
  if (!live_known_[a]) {
    std::vector<Transition> out = raw_transitions(a);
    std::erase_if(out, [&](const Transition& t) { return empty(t.next); });
    bytes_ += out.capacity() * sizeof(Transition);
    live_[a] = std::move(out);
    live_known_[a] = 1;
  }
  return live_[a];
}

std::optional<std::vector<std::u32string>> Languages::texts(Id a, std::size_t most) {
  constexpr std::size_t kLongest = 200;  // characters
  std::vector<std::u32string> out;
  std::vector<std::pair<std::u32string, Id>> open{{U"", a}};  // a text begins with each of these prefixes
  while (!open.empty()) {
    const auto [prefix, rest] = std::move(open.back());
    open.pop_back();
    if (accepts_end(rest)) out.push_back(prefix);
    for (const Transition& t : transitions(rest)) {
      if (prefix.size() == kLongest || t.last - t.first >= most) return {};
      for (char32_t c = t.first; c <= t.last; ++c) open.push_back({prefix + c, t.next});
      if (out.size() + open.size() > most) return {};
    }
  }
  return out;
}

Id Languages::after(Id a, char32_t c) {
  auto list = transitions(a);
  auto it = std::lower_bound(list.begin(), list.end(), c, [](const Transition& t, char32_t x) { return t.last < x; });
  return it != list.end() && it->first <= c ? it->next : kNone;
}

bool Languages::continues_in(Id a, char32_t first, char32_t last) {
  auto list = transitions(a);
  auto it =
      std::lower_bound(list.begin(), list.end(), first, [](const Transition& t, char32_t x) { return t.last < x; });
  return it != list.end() && it->first <= last;
}

}  // namespace dml
