#include "tokenizer/stages/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "tokenizer/text/byte_hash.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

/// Whether a mark follows another character.
bool has_inner_mark(std::string_view s) {
  std::size_t i = 0;
  while (s.substr(i).starts_with(kSpaceMark)) i += kSpaceMark.size();
  return s.find(kSpaceMark, i) != std::string_view::npos;
}

}  // namespace

WordCache::Slot& WordCache::slot(const std::uint64_t (&key)[4], std::uint32_t length) {
  if (slots_.empty()) slots_.resize(kSlots);
  std::uint64_t h = fold_multiply(key[0] ^ 0x9E3779B97F4A7C15u, key[1] ^ 0xD6E8FEB86659FD93u) ^
                    fold_multiply(key[2] ^ 0xA0761D6478BD642Fu, key[3] ^ 0xE7037ED1A0B428DBu ^ length);
  return slots_[(h ^ h >> 32) & (kSlots - 1)];
}

void throw_too_long() {
  throw UserError(
      "more than {} MiB of text without a place to split it (a single word without spaces) cannot be tokenized",
      kMaxUnsplitBytes >> 20);
}

std::vector<Token> byte_fallback_ids(const Vocabulary& vocabulary) {
  std::vector<Token> out(256);
  for (int b = 0; b < 256; ++b) out[b] = vocabulary.find(fmt::format("<0x{:02X}>", b));
  return out;
}

void Bpe::reserve_merges(std::size_t count) {
  std::size_t size = 64;
  while (size < count * 2) size *= 2;
  if (size <= merges_.size()) return;
  std::vector<Merge> old(size);
  old.swap(merges_);
  merge_shift_ = 64 - std::countr_zero(size);
  for (const Merge& m : old) {
    if (m.key == kFree) continue;
    std::size_t at = mix(m.key) >> merge_shift_;
    while (merges_[at].key != kFree) at = (at + 1) & (size - 1);
    merges_[at] = m;
  }
}

void Bpe::add_merge(Token left, Token right, std::uint32_t rank, Token merged) {
  if (merge_count_ * 2 >= merges_.size()) reserve_merges(merge_count_ * 2 + 32);
  std::uint64_t key = pair_key(left, right);
  std::size_t at = mix(key) >> merge_shift_;
  while (merges_[at].key != kFree && merges_[at].key != key) at = (at + 1) & (merges_.size() - 1);
  if (merges_[at].key == kFree) ++merge_count_;
  merges_[at] = {key, rank, merged};
}

const Bpe::Merge* Bpe::find_merge(Token a, Token b) const {
  std::uint64_t key = pair_key(a, b);
  for (std::size_t at = mix(key) >> merge_shift_;; at = (at + 1) & (merges_.size() - 1)) {
    if (merges_[at].key == key) return &merges_[at];
    if (merges_[at].key == kFree) return nullptr;
  }
}

Token Bpe::symbol(std::string_view text) {
  if (Token id = vocabulary.find(text); id >= 0) return id;
  if (Token id = extra_.find(text); id >= 0) return vocabulary.size() + id;
  extra_.add(text, extra_.size());
  return vocabulary.size() + extra_.size() - 1;
}

void Bpe::prepare(const Options& options) {
  options_ = options;
  reserve_merges(1);
  byte_ids_.fill(-1);
  if (options.byte_level) {
    for (int b = 0; b < 256; ++b)
      byte_ids_[b] = vocabulary.find(bytes_to_spelling(std::string(1, static_cast<char>(b))));
  } else {
    if (options.byte_fallback) {
      auto ids = byte_fallback_ids(vocabulary);
      std::copy(ids.begin(), ids.end(), byte_ids_.begin());
    }
    char_ids_.assign(0x10000, -1);
    auto note = [&](std::string_view s, Token id) {
      if (s.empty() || char_length(s[0]) != s.size()) return;
      std::size_t i = 0;
      if (char32_t c = decode_char(s.data(), i); c < 0x10000) char_ids_[c] = id;
    };
    for (Token id = 0; id < vocabulary.size(); ++id) note(vocabulary.spelling(id), id);
    for (Token id = 0; id < extra_.size(); ++id) note(extra_.spelling(id), vocabulary.size() + id);
    bool plain = options.continuing_prefix.empty() && options.word_suffix.empty();
    cut_at_marks_ = plain && char_ids_[0x2581] >= 0 && char_ids_[0x2581] < vocabulary.size();
    for (const Merge& m : merges_)
      if (m.key != kFree && cut_at_marks_ && has_inner_mark(vocabulary.spelling(m.merged))) cut_at_marks_ = false;
  }
}

void Bpe::encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    Token id = options_.byte_level ? vocabulary.find(bytes_to_spelling(word)) : vocabulary.find(word);
    if (id >= 0) return put(out, id, base, base + static_cast<std::uint32_t>(word.size()));
  }
  std::size_t first = out.ids.size();
  if (unmergeable_.empty()) {
    encode_parts(word, base, out, scratch);
  } else {
    std::size_t start = 0, i = 0;
    while (i < word.size()) {
      std::size_t length = 0;
      Token id = -1;
      if (unmergeable_.starts_key(static_cast<unsigned char>(word[i])))
        unmergeable_.prefixes(word.substr(i), [&](std::size_t n, std::int32_t value) { length = n, id = value; });
      if (id < 0) {
        i += char_length(word[i]);
        continue;
      }
      if (i > start)
        encode_parts(word.substr(start, i - start), base + static_cast<std::uint32_t>(start), out, scratch);
      put(out, id, base + static_cast<std::uint32_t>(i), base + static_cast<std::uint32_t>(i + length));
      start = i += length;
    }
    if (word.size() > start) encode_parts(word.substr(start), base + static_cast<std::uint32_t>(start), out, scratch);
  }
  if (options_.sentencepiece && !options_.byte_fallback) {  // a run of unknown characters is one unknown token
    std::size_t to = first;
    for (std::size_t i = first; i < out.ids.size(); ++i) {
      if (to > first && out.ids[i] == options_.unk && out.ids[to - 1] == options_.unk) {
        out.offsets[to - 1].end = out.offsets[i].end;
      } else {
        out.ids[to] = out.ids[i];
        out.offsets[to++] = out.offsets[i];
      }
    }
    out.ids.resize(to);
    out.offsets.resize(to);
  }
}

void Bpe::encode_parts(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  if (!cut_at_marks_) return encode_part(word, base, out, scratch);
  std::size_t start = 0;
  bool in_marks = true;  // a run of marks belongs to the following part
  for (std::size_t i = 0; i < word.size();) {
    bool mark = word[i] == '\xe2' && word.substr(i, 3) == kSpaceMark;
    if (mark && !in_marks) {
      encode_part(word.substr(start, i - start), base + static_cast<std::uint32_t>(start), out, scratch);
      start = i;
    }
    in_marks = mark;
    i += mark ? 3 : 1;
  }
  encode_part(word.substr(start), base + static_cast<std::uint32_t>(start), out, scratch);
}

void Bpe::encode_part(std::string_view part, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  if (part.size() > WordCache::kMaxWord) return merge_part(part, base, out, scratch);
  std::uint64_t key[4] = {};
  std::memcpy(key, part.data(), part.size());
  auto length = static_cast<std::uint8_t>(part.size());
  WordCache::Slot& slot = scratch.cache.slot(key, length);
  if (slot.length == length && std::memcmp(slot.key, key, sizeof key) == 0) {
    std::uint32_t begin = base;
    for (int i = 0; i < slot.count; ++i) {
      put(out, slot.ids[i], begin, base + slot.ends[i]);
      begin = base + slot.ends[i];
    }
    return;
  }
  std::size_t first = out.ids.size();
  merge_part(part, base, out, scratch);
  std::size_t count = out.ids.size() - first;
  if (count == 0 || count > WordCache::kMaxIds) return;
  std::uint32_t covered = base;
  for (std::size_t i = 0; i < count; ++i) {
    if (out.offsets[first + i].begin != covered) return;  // something was dropped, so ends do not determine the offsets
    covered = out.offsets[first + i].end;
    slot.ids[i] = out.ids[first + i];
    slot.ends[i] = static_cast<std::uint8_t>(covered - base);
  }
  std::memcpy(slot.key, key, sizeof key);
  slot.length = length;
  slot.count = static_cast<std::uint8_t>(count);
}

void Bpe::find_joined() const {
  // Not if symbols depend on their neighbors or on their position in the word, or are bytes of a character.
  has_boundaries_ = options_.continuing_prefix.empty() && options_.word_suffix.empty() &&
                    !(options_.fuse_unk && options_.unk >= 0 && !options_.byte_fallback && !options_.byte_level);
  std::string bytes;
  for (const Merge& m : merges_) {
    if (m.key == kFree) continue;
    const auto left = static_cast<Token>(m.key >> 32), right = static_cast<Token>(m.key & 0xffffffffu);
    if (!options_.byte_level && options_.byte_fallback)
      for (Token id : byte_ids_) has_boundaries_ = has_boundaries_ && id != left && id != right;
    std::string_view text =
        m.merged < vocabulary.size() ? vocabulary.spelling(m.merged) : extra_.spelling(m.merged - vocabulary.size());
    if (options_.byte_level && spelling_to_bytes(text, bytes)) text = bytes;
    for (std::size_t i = 1; i < text.size(); ++i)
      joined_.set(static_cast<std::size_t>(static_cast<unsigned char>(text[i - 1])) << 8 |
                  static_cast<unsigned char>(text[i]));
  }
}

std::size_t Bpe::next_boundary(std::string_view part, std::size_t from) const {
  std::call_once(long_part_, [this] { find_joined(); });
  const std::size_t end = std::min(part.size(), kMaxUnsplitBytes);
  for (std::size_t i = from; has_boundaries_ && i < end; ++i) {
    const auto before = static_cast<unsigned char>(part[i - 1]), here = static_cast<unsigned char>(part[i]);
    const bool begins = options_.byte_level || (here & 0xc0) != 0x80;
    if (begins && !joined_[static_cast<std::size_t>(before) << 8 | here]) return i;
  }
  if (part.size() > kMaxUnsplitBytes) throw_too_long();
  return part.size();
}

void Bpe::merge_part(std::string_view part, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  while (part.size() > kLongPart) {
    const std::size_t cut = next_boundary(part, kLongPart);
    merge_range(part.substr(0, cut), base, out, scratch);
    part.remove_prefix(cut);
    base += static_cast<std::uint32_t>(cut);
  }
  merge_range(part, base, out, scratch);
}

void Bpe::merge_range(std::string_view part, std::uint32_t base, Encoding& out, ModelScratch& scratch) const {
  split_symbols(part, scratch);
  scratch.unused.clear();
  auto& symbols = scratch.symbols;
  if (symbols.empty()) return;
  if (symbols.size() <= kShort) {
    merge_short(scratch);
    for (const auto& s : symbols) emit(s, part, base, out, scratch);
  } else {
    merge_long(scratch);
    for (std::int32_t i = 0; i >= 0; i = symbols[i].next) emit(symbols[i], part, base, out, scratch);
  }
}

Token Bpe::char_id(std::string_view character) const {
  std::size_t i = 0;
  char32_t c = decode_char(character.data(), i);
  if (c < 0x10000) return char_ids_[c];
  if (Token id = vocabulary.find(character); id >= 0) return id;
  Token id = extra_.find(character);
  return id < 0 ? -1 : vocabulary.size() + id;
}

void Bpe::split_symbols(std::string_view part, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  bool pending_unk = false;
  ModelScratch::Symbol unk{};
  auto push = [&](Token id, std::size_t begin, std::size_t end) {
    symbols.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), 0, 0});
  };
  auto flush_unk = [&] {
    if (pending_unk) symbols.push_back(unk);
    pending_unk = false;
  };
  std::string affixed;
  for (std::size_t i = 0; i < part.size();) {
    std::size_t n = options_.byte_level ? 1 : char_length(part[i]), end = i + n;
    Token id;
    if (options_.byte_level) {
      id = byte_ids_[static_cast<unsigned char>(part[i])];
    } else if (options_.continuing_prefix.empty() && options_.word_suffix.empty()) {
      id = char_id(part.substr(i, n));
    } else {
      affixed.clear();
      if (i > 0) affixed += options_.continuing_prefix;
      affixed += part.substr(i, n);
      if (end == part.size()) affixed += options_.word_suffix;
      id = vocabulary.find(affixed);
    }
    if (id >= 0) {
      flush_unk();
      push(id, i, end);
    } else if (options_.sentencepiece) {
      push(-1, i, end);  // never merges
    } else if (bool all = options_.byte_fallback; all) {
      std::string_view bytes = affixed.empty() ? part.substr(i, n) : std::string_view(affixed);
      for (char b : bytes) all = all && byte_ids_[static_cast<unsigned char>(b)] >= 0;
      for (std::size_t k = 0; all && k < bytes.size(); ++k)
        push(byte_ids_[static_cast<unsigned char>(bytes[k])], std::min(i + k, end), std::min(i + k + 1, end));
      id = all ? 0 : -1;
    }
    if (id < 0 && !options_.sentencepiece && options_.unk >= 0) {
      if (pending_unk && options_.fuse_unk) {
        unk.end = static_cast<std::uint32_t>(end);
      } else {
        flush_unk();
        unk = {options_.unk, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(end), 0, 0};
        pending_unk = true;
      }
    }
    i = end;
  }
  flush_unk();
}

}  // namespace dml
