#include "constraint/token_mask.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace dml {

namespace {
constexpr std::size_t kMaxBytes = std::size_t{32} << 20;  // of cached sets: 2048 sets for 128k tokens
constexpr std::size_t kMaxAutomaton = std::size_t{4} << 30;
constexpr std::size_t kMaxTokenWork = 30'000'000;  // for one token; about a second
}  // namespace

TokenTree::TokenTree(std::vector<std::string> texts, std::vector<std::pair<std::int32_t, std::string>> specials)
    : texts_(std::move(texts)), specials_(std::move(specials)) {
  std::vector<std::int32_t> order(texts_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::int32_t i) { return text(i).empty(); });
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return text(a) < text(b); });
  std::vector<std::uint32_t> path;  // the nodes of the previous text
  std::string before;
  for (std::int32_t id : order) {
    const std::string& now = text(id);
    const auto shared = static_cast<std::size_t>(
        std::mismatch(before.begin(), before.end(), now.begin(), now.end()).first - before.begin());
    while (path.size() > shared) {
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
      path.pop_back();
    }
    for (std::size_t i = shared; i < now.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<unsigned char>(now[i]), 0, static_cast<std::uint32_t>(token_ids_.size()), 0});
    }
    token_ids_.push_back(id);
    ++nodes_[path.back()].tokens;
    before = now;
  }
  for (auto node : path) nodes_[node].end = static_cast<std::uint32_t>(nodes_.size());
}

std::int32_t TokenTree::longest(std::string_view text) const {
  std::int32_t best = -1;
  std::uint32_t node = 0, end = static_cast<std::uint32_t>(nodes_.size());
  for (const char c : text) {
    while (node < end && nodes_[node].byte != static_cast<unsigned char>(c)) node = nodes_[node].end;
    if (node >= end) break;
    if (nodes_[node].tokens > 0) best = token_ids_[nodes_[node].first_token];
    end = nodes_[node++].end;
  }
  return best;
}

std::string_view TokenTree::special(std::int32_t token) const {
  auto it = std::ranges::lower_bound(specials_, token, {}, [](auto& each) { return each.first; });
  return it != specials_.end() && it->first == token ? std::string_view(it->second) : std::string_view();
}

TokenConstraint::Text TokenConstraint::start() {
  if (automaton_->start() == Automaton::kDead) throw UserError("the constraint allows no text at all");
  return {automaton_->start()};
}

const TokenSet& TokenConstraint::allowed(const Text& text) {
  const std::uint64_t key = std::uint64_t{text.state} << 1 | text.begun;
  if (auto it = sets_.find(key); it != sets_.end()) return it->second;
  if (set_bytes_ >= kMaxBytes) sets_.clear(), set_bytes_ = 0;
  if (automaton_bytes_ > kMaxAutomaton) throw UserError("the constraint takes too much memory");
  automaton_->limit_work(kMaxTokenWork);
  TokenSet set;
  try {
    set = fitting(text);
  } catch (const UserError&) {
    note_bytes();
    throw;
  }
  set_bytes_ += set.size() * sizeof(set[0]);
  note_bytes();
  return sets_.emplace(key, std::move(set)).first->second;
}

void TokenConstraint::note_bytes() {
  automaton_bytes_ = automaton_->bytes();
  bytes_ = set_bytes_ + automaton_bytes_;
}

TokenSet TokenConstraint::fitting(const Text& text) {
  const TokenTree& tokens = tree(text);
  TokenSet set((tokens.vocabulary() + 63) / 64, 0);
  const auto nodes = tokens.nodes();
  const auto ids = tokens.token_ids();
  struct Open {
    std::uint32_t end;
    Automaton::State state;
  };
  std::vector<Open> open;
  for (std::uint32_t i = 0; i < nodes.size();) {
    while (!open.empty() && open.back().end <= i) open.pop_back();
    const auto& node = nodes[i];
    const Automaton::State next = automaton_->after(open.empty() ? text.state : open.back().state, node.byte);
    if (next == Automaton::kDead) {
      i = node.end;
      continue;
    }
    for (std::uint32_t t = 0; t < node.tokens; ++t) {
      const auto id = static_cast<std::size_t>(ids[node.first_token + t]);
      set[id / 64] |= std::uint64_t{1} << id % 64;
    }
    open.push_back({node.end, next});
    ++i;
  }
  if (automaton_->free(text.state))
    for (auto& [id, special] : tokens.specials())
      if (automaton_->after(text.state, std::string_view(special)) != Automaton::kDead)
        set[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << id % 64;
  return set;
}

std::vector<std::int32_t> TokenConstraint::only_continuation(const Text& text, std::size_t most) {
  constexpr std::size_t kMaxBytes = 128;
  automaton_->limit_work(kMaxTokenWork);
  std::string bytes;
  for (Automaton::State s = text.state; bytes.size() < kMaxBytes && !automaton_->may_end(s);) {
    const auto only = automaton_->only_byte(s);
    if (!only) break;
    bytes += static_cast<char>(*only);
    s = automaton_->after(s, *only);
  }
  std::vector<std::int32_t> tokens;
  for (std::string_view left = bytes; !left.empty() && tokens.size() < most;) {
    const TokenTree& tree = tokens.empty() && !text.begun ? *first_ : *tree_;
    const std::int32_t token = tree.longest(left);
    if (token < 0) break;
    tokens.push_back(token);
    left.remove_prefix(tree.text(token).size());
  }
  return tokens;
}

TokenConstraint::Text TokenConstraint::after(const Text& text, std::int32_t token) {
  automaton_->limit_work(kMaxTokenWork);
  const TokenTree& tokens = tree(text);
  const std::string_view read =
      tokens.text(token).empty() ? tokens.special(token) : std::string_view(tokens.text(token));
  const Automaton::State next = automaton_->after(text.state, read);
  DML_CHECK(next != Automaton::kDead && !read.empty());
  return {next, true};
}

}  // namespace dml
