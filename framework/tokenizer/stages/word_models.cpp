#include "tokenizer/stages/word_models.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

void put_unknown(std::string_view word, Token unk, std::uint32_t base, Encoding& out) {
  if (unk < 0)
    throw UserError("the word '{}' is unknown to the tokenizer, which has no unknown token", shown(word, 40));
  put(out, unk, base, base + static_cast<std::uint32_t>(word.size()));
}

}  // namespace

void WordPiece::encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  if (static_cast<std::size_t>(std::count_if(word.begin(), word.end(), starts)) > max_characters)
    return put_unknown(word, unk, base, out);
  std::size_t first = out.ids.size();
  std::string spelling;
  for (std::size_t start = 0; start < word.size();) {
    std::size_t end = word.size();
    Token id = -1;
    for (; end > start; --end) {
      if (end < word.size() && !starts(word[end])) continue;
      spelling.assign(start > 0 ? continuing_prefix : "").append(word.substr(start, end - start));
      ++scratch.steps;
      if ((id = vocabulary.find(spelling)) >= 0) break;
    }
    if (id < 0) {
      out.ids.resize(first);
      out.offsets.resize(first);
      return put_unknown(word, unk, base, out);
    }
    put(out, id, base + static_cast<std::uint32_t>(start), base + static_cast<std::uint32_t>(end));
    start = end;
  }
}

void WordLevel::encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch&) const {
  Token id = vocabulary.find(word);
  if (id < 0) return put_unknown(word, unk, base, out);
  put(out, id, base, base + static_cast<std::uint32_t>(word.size()));
}

}  // namespace dml
