#include "tokenizer/text/vocabulary.h"

#include "core/error.h"
#include "tokenizer/text/byte_hash.h"

namespace dml {

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  block_.reserve(bytes);
  spans_.reserve(tokens);
}

void Vocabulary::grow() {
  slots_.assign(std::max<std::size_t>(64, slots_.size() * 2), -1);
  for (Token id = 0; id < size(); ++id) {
    if (!has(id)) continue;
    std::size_t at = hash_bytes(spelling(id)) & (slots_.size() - 1);
    while (slots_[at] >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = id;
  }
}

bool Vocabulary::add(std::string_view spelling, Token id) {
  DML_CHECK(id >= 0 && id < kMaxVocabulary && !has(id), "id {}", id);
  if (count_ * 2 >= slots_.size()) grow();
  std::size_t at = hash_bytes(spelling) & (slots_.size() - 1);
  for (; slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1))
    if (this->spelling(slots_[at]) == spelling) return false;
  slots_[at] = id;
  if (id >= size()) spans_.resize(static_cast<std::size_t>(id) + 1);
  spans_[id] = {static_cast<std::uint32_t>(block_.size()), static_cast<std::uint32_t>(spelling.size())};
  block_.append(spelling);
  ++count_;
  return true;
}

std::string_view Vocabulary::spelling(Token id) const {
  if (!has(id)) return {};
  return std::string_view(block_).substr(spans_[id].first, spans_[id].length);
}

Token Vocabulary::find(std::string_view spelling) const {
  if (slots_.empty()) return -1;
  for (std::size_t at = hash_bytes(spelling) & (slots_.size() - 1); slots_[at] >= 0;
       at = (at + 1) & (slots_.size() - 1))
    if (this->spelling(slots_[at]) == spelling) return slots_[at];
  return -1;
}

}  // namespace dml
