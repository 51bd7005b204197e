// BPE merges of a part of a text: by scanning if it is short, with a heap if it is long.
#include <algorithm>

#include "tokenizer/stages/bpe.h"

namespace dml {
namespace {

constexpr std::uint32_t kNoRank = 0xffffffffu;

}  // namespace

const Bpe::Merge* Bpe::look_up(Token a, Token b, ModelScratch& scratch) const {
  ++scratch.steps;
  const Merge* merge = find_merge(a, b);
  if (merge && static_cast<std::size_t>(merge->merged) < unused_.size() && unused_[merge->merged])
    scratch.unused.push_back({merge->merged, a, b});
  return merge;
}

void Bpe::merge_short(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  std::size_t n = symbols.size();
  std::uint32_t ranks[kShort];
  Token merged[kShort];
  auto look = [&](std::size_t i) {
    const Merge* m = look_up(symbols[i].id, symbols[i + 1].id, scratch);
    ranks[i] = m ? m->rank : kNoRank;
    merged[i] = m ? m->merged : -1;
  };
  for (std::size_t i = 0; i + 1 < n; ++i) look(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNoRank) break;
    symbols[best].id = merged[best];
    symbols[best].end = symbols[best + 1].end;
    for (std::size_t i = best + 1; i + 1 < n; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best; i + 2 < n; ++i) ranks[i] = ranks[i + 1], merged[i] = merged[i + 1];
    --n;
    if (best > 0) look(best - 1);
    if (best + 1 < n) look(best);
  }
  symbols.resize(n);
}

void Bpe::merge_long(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  auto later = [](const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  auto n = static_cast<std::int32_t>(symbols.size());
  auto candidate = [&](std::int32_t i, bool push) {
    std::int32_t j = symbols[i].next;
    if (j < 0) return;
    if (const Merge* m = look_up(symbols[i].id, symbols[j].id, scratch)) {
      heap.push_back({m->rank, static_cast<std::uint32_t>(i), m->merged});
      if (push) std::push_heap(heap.begin(), heap.end(), later);
    }
  };
  for (std::int32_t i = 0; i < n; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < n ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i + 1 < n; ++i) candidate(i, false);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    ModelScratch::Candidate top = heap.back();
    heap.pop_back();
    auto& left = symbols[top.position];
    if (left.begin == left.end || left.next < 0) continue;  // merged meanwhile
    auto& right = symbols[left.next];
    const Merge* now = find_merge(left.id, right.id);
    if (!now || now->merged != top.id) continue;  // the pair has changed
    left.id = top.id;
    left.end = right.end;
    right.begin = right.end;
    left.next = right.next;
    auto at = static_cast<std::int32_t>(top.position);
    if (left.next >= 0) symbols[left.next].previous = at;
    if (left.previous >= 0) candidate(left.previous, true);
    if (left.next >= 0) candidate(at, true);
  }
}

void Bpe::emit(const ModelScratch::Symbol& s, std::string_view part, std::uint32_t base, Encoding& out,
               const ModelScratch& scratch) const {
  bool known = s.id >= 0 && s.id < vocabulary.size();
  if (known && static_cast<std::size_t>(s.id) < unused_.size() && unused_[s.id]) {
    auto made = std::find_if(scratch.unused.rbegin(), scratch.unused.rend(), [&](auto& u) { return u[0] == s.id; });
    if (made != scratch.unused.rend()) {
      Token left = (*made)[1], right = (*made)[2];
      std::size_t length =
          (left < vocabulary.size() ? vocabulary.spelling(left) : extra_.spelling(left - vocabulary.size())).size();
      std::uint32_t middle = s.begin + static_cast<std::uint32_t>(length);
      emit({left, s.begin, middle, 0, 0}, part, base, out, scratch);
      return emit({right, middle, s.end, 0, 0}, part, base, out, scratch);
    }
  }
  if (known || !options_.sentencepiece) return put(out, s.id, base + s.begin, base + s.end);
  if (!options_.byte_fallback) return put(out, options_.unk, base + s.begin, base + s.end);
  for (std::uint32_t k = s.begin; k < s.end; ++k)
    put(out, byte_ids_[static_cast<unsigned char>(part[k])], base + k, base + k + 1);
}

}  // namespace dml
