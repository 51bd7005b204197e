#include "tokenizer/stages/added_tokens.h"

#include "core/error.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "tokenizer/text/unicode.h"
#include "tokenizer/text/vocabulary.h"

namespace dml {
namespace {

// The class of the character that ends before `at`.
std::uint8_t class_before(std::string_view text, std::uint32_t at, std::uint32_t& begin) {
  begin = at - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  std::size_t i = begin;
  return char_classes()[decode_char(text.data(), i)];
}

}  // namespace

void AddedTokens::add(AddedToken token, std::string_view where) {
  if (token.text.empty()) throw UserError("{}: added token {} has no text", where, token.id);
  if (token.text.size() > kMaxBytes)
    throw UserError("{}: added token {} has {} bytes, the limit is {}", where, token.id, token.text.size(), kMaxBytes);
  if (find_invalid_utf8(token.text) != std::string::npos)
    throw UserError("{}: added token {} is not valid UTF-8", where, token.id);
  if (token.id < 0 || token.id >= kMaxVocabulary)
    throw UserError("{}: added token '{}' has id {}, the limit is {}", where, shown(token.text, 60), token.id,
                    kMaxVocabulary);
  auto id = by_id_.find(token.id);
  auto text = by_text_.find(token.text);
  if (text != by_text_.end() && (id == by_id_.end() || id->second != text->second))
    throw UserError("{}: added token '{}' has the ids {} and {}", where, shown(token.text, 60),
                    tokens_[text->second].id, token.id);
  if (id != by_id_.end()) {
    by_text_.erase(tokens_[id->second].text);
    by_text_[token.text] = id->second;
    tokens_[id->second] = std::move(token);
    return;
  }
  if (tokens_.size() >= kMaxCount) throw UserError("{}: more than {} added tokens", where, kMaxCount);
  by_id_[token.id] = by_text_[token.text] = tokens_.size();
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::find(Token id) const {
  auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}
const AddedToken* AddedTokens::find(std::string_view text) const {
  auto it = by_text_.find(std::string(text));
  return it == by_text_.end() ? nullptr : &tokens_[it->second];
}
void AddedTokens::make_special(Token id) {
  if (auto it = by_id_.find(id); it != by_id_.end()) tokens_[it->second].special = true;
}

void AddedTokens::prepare(const void* context, Normalize normalize) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    token.decoded = token.normalized ? normalize(context, token.text) : token.text;
    (token.normalized ? normalized_ : raw_).add(token.decoded, static_cast<std::int32_t>(i));
  }
}

bool AddedTokens::stands_alone(std::string_view text, ByteRange match) const {
  std::uint32_t begin = 0;
  if (match.begin > 0 && (class_before(text, match.begin, begin) & kWord)) return false;
  std::size_t i = match.end;
  return match.end == text.size() || !(char_classes()[decode_char(text.data(), i)] & kWord);
}

void AddedTokens::push(std::string_view text, ByteRange match, const AddedToken& token, std::uint32_t& done,
                       std::vector<Cut>& out) const {
  std::uint32_t begin = 0;
  while (token.lstrip && match.begin > done && (class_before(text, match.begin, begin) & kSpace)) match.begin = begin;
  while (token.rstrip && match.end < text.size()) {
    std::size_t next = match.end;
    if (!(char_classes()[decode_char(text.data(), next)] & kSpace)) break;
    match.end = static_cast<std::uint32_t>(next);
  }
  if (match.begin > done) out.push_back({{done, match.begin}, -1});
  out.push_back({match, token.id});
  done = match.end;
}

}  // namespace dml
