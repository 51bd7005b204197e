#include "tokenizer/stages/unigram.h"

#include <algorithm>

#include "core/error.h"
#include "tokenizer/text/unicode.h"

namespace dml {

void Unigram::add_piece(Token id, double score, bool bonus) {
  auto n = static_cast<std::size_t>(id) + 1;
  if (scores_.size() < n) scores_.resize(n), bonus_.resize(n);
  scores_[id] = score;
  bonus_[id] = bonus;
  trie_.add(vocabulary.spelling(id), id);
  if (!bonus) count_score(score);
}

void Unigram::count_score(double score) {
  lowest_ = any_ ? std::min(lowest_, score) : score;
  highest_ = std::max(highest_, score);
  any_ = true;
}

void Unigram::prepare(const Options& options) {
  options_ = options;
  if (options.byte_fallback) byte_ids_ = byte_fallback_ids(vocabulary);
}

template <class Real>
std::size_t Unigram::search(std::string_view word, double before, ModelScratch& scratch) const {
  constexpr std::uint32_t kUnreached = 0xffffffffu;
  const std::size_t n = std::min(word.size(), kMaxUnsplitBytes), room = std::min(word.size(), n + kMaxTokenBytes);
  scratch.best.assign(room + 1, 0);
  scratch.best.front() = before;
  scratch.best_id.assign(room + 1, -1);
  scratch.best_start.assign(room + 1, kUnreached);
  Real unknown = static_cast<Real>(lowest_) - static_cast<Real>(10);
  std::size_t reach = 0;  // the farthest end of a piece so far
  for (std::size_t start = 0; start < n;) {
    if (start >= kLongPart && start == reach && scratch.best_id[start] != options_.unk) return start;
    std::size_t length = std::min<std::size_t>(char_length(word[start]), word.size() - start);
    auto here = static_cast<Real>(scratch.best[start]);
    bool single = false;
    auto offer = [&](std::size_t end, Token id, double score) {
      reach = std::max(reach, end);
      if (scratch.best_start[end] == kUnreached || score > scratch.best[end]) {
        scratch.best[end] = static_cast<Real>(score);
        scratch.best_start[end] = static_cast<std::uint32_t>(start);
        scratch.best_id[end] = id;
      }
    };
    trie_.prefixes(word.substr(start), [&](std::size_t piece, std::int32_t id) {
      ++scratch.steps;
      // SentencePiece: `length * max_score - 0.1` is a double, so the sum and the comparison are, too.
      double score = bonus_[id] ? static_cast<double>(static_cast<float>(piece) * static_cast<float>(highest_)) - 0.1
                                : scores_[id];
      offer(start + piece, id, score + static_cast<double>(here));
      single = single || piece == length;
    });
    if (!single) offer(start + length, options_.unk, static_cast<double>(static_cast<Real>(unknown + here)));
    start += length;
  }
  if (word.size() > n) throw_too_long();
  return n;
}

// The best segmentation includes every boundary that no piece crosses, so the word is processed in parts.
void Unigram::encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  double score = 0;
  while (!word.empty()) {
    const std::size_t size =
        options_.sentencepiece ? search<float>(word, score, scratch) : search<double>(word, score, scratch);
    score = scratch.best[size];
    put_path(word.substr(0, size), base, out, scratch);
    word.remove_prefix(size);
    base += static_cast<std::uint32_t>(size);
  }
}

void Unigram::put_path(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  // The path is stored backwards; runs of unknown characters become one token.
  auto& path = scratch.symbols;
  path.clear();
  for (auto end = static_cast<std::uint32_t>(word.size()); end > 0;) {
    std::uint32_t start = scratch.best_start[end];
    Token id = scratch.best_id[end];
    bool fuse = !path.empty() && id == options_.unk && path.back().id == id;
    if (fuse) path.back().begin = start;
    else path.push_back({id, start, end, 0, 0});
    end = start;
  }
  for (std::size_t i = path.size(); i-- > 0;) {
    auto [id, begin, end, previous, next] = path[i];
    if (id == options_.unk && options_.byte_fallback) {
      bool all = true;
      for (std::uint32_t k = begin; k < end; ++k) all = all && byte_ids_[static_cast<unsigned char>(word[k])] >= 0;
      if (all) {
        for (std::uint32_t k = begin; k < end; ++k)
          put(out, byte_ids_[static_cast<unsigned char>(word[k])], base + k, base + k + 1);
        continue;
      }
    }
    if (id < 0) throw UserError("the text has characters unknown to the tokenizer, which has no unknown token");
    put(out, id, base + begin, base + end);
  }
}

}  // namespace dml
