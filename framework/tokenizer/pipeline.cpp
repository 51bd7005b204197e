#include "tokenizer/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "core/utf8.h"
#include "tokenizer/text/unicode.h"

namespace dml {

struct Pipeline::Lease {
  explicit Lease(const Pipeline& owner) : pipeline(owner) {
    {
      std::lock_guard lock(pipeline.mutex_);
      if (!pipeline.idle_.empty()) {
        scratch = std::move(pipeline.idle_.back());
        pipeline.idle_.pop_back();
      }
    }
    if (!scratch) scratch = std::make_unique<ModelScratch>();
  }
  ~Lease() {
    if (scratch->symbols.capacity() + scratch->best.capacity() >
        kKeptSymbols) {  // a very long text need not be remembered
      scratch->symbols = {};
      scratch->heap = {};
      scratch->best = {};
      scratch->best_id = {};
      scratch->best_start = {};
    }
    std::lock_guard lock(pipeline.mutex_);
    pipeline.idle_.push_back(std::move(scratch));
  }
  static constexpr std::size_t kKeptSymbols = 1 << 16;
  const Pipeline& pipeline;
  std::unique_ptr<ModelScratch> scratch;
};

void Pipeline::prepare() {
  size_ = model->vocabulary.size();
  for (const AddedToken& token : added.all()) size_ = std::max(size_, token.id + 1);
  added.prepare(this, [](const void* self, std::string_view text) {
    AlignedText content(text, 0);
    if (auto& n = static_cast<const Pipeline*>(self)->normalizer) n->apply(content);
    return std::string(content.bytes());
  });
  auto has = [](const std::vector<Token>& ids, std::optional<Token> id) {
    return id && std::find(ids.begin(), ids.end(), *id) != ids.end();
  };
  adds_bos = has(post_processor.front, bos);
  adds_eos = has(post_processor.back, eos);
}

void Pipeline::encode_into(Encoding& out, std::string_view input, const EncodeOptions& options) const {
  encode_counting(out, input, options);
}

// Bytes that are not UTF-8 become U+FFFD.
static void replace_invalid(AlignedText& text, std::string_view input) {
  AlignedText::Rewriter mended(text);
  for (std::size_t i = 0; i < input.size();) {
    const std::size_t begin = i;
    const bool broken = next_code_point(input, i) == 0xFFFD && i == begin + 1;
    if (broken) mended.put("\xef\xbf\xbd", static_cast<std::uint32_t>(begin));
    else mended.keep(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(i));
  }
  mended.finish();
}

std::size_t Pipeline::encode_counting(Encoding& out, std::string_view input, const EncodeOptions& options) const {
  if (input.size() > (std::size_t{1} << 31))
    throw UserError("a text of {} bytes is too long to tokenize at once", input.size());
  Lease lease(*this);
  ModelScratch& scratch = *lease.scratch;
  scratch.steps = 0;
  out.ids.clear();
  out.offsets.clear();
  out.ids.reserve(input.size() / 4 + 8);
  out.offsets.reserve(input.size() / 4 + 8);
  if (options.add_special)
    for (Token id : post_processor.front) put(out, id, 0, 0);

  AlignedText text(input, 0);
  if (find_invalid_utf8(input) != std::string_view::npos) replace_invalid(text, input);

  AddedTokens::Allowed allowed{options.parse_special, options.literal};
  AlignedText part, inner;
  std::vector<AddedTokens::Cut> cuts, inner_cuts;
  auto put_token = [&](const AlignedText& from, const AddedTokens::Cut& cut) {
    ByteRange at = from.origin(cut.range);
    put(out, cut.id, at.begin, at.end);
  };
  auto normalize_and_encode = [&](AlignedText& chunk) {
    if (normalizer) normalizer->apply(chunk);
    if (!added.any(true)) return encode_words(chunk, out, scratch);
    inner_cuts.clear();
    added.cut(
        chunk.bytes(), true, allowed, [&](std::uint32_t i) { return chunk.origin(i); }, inner_cuts);
    for (const auto& cut : inner_cuts) {
      if (cut.id >= 0) {
        put_token(chunk, cut);
      } else {
        inner.assign(chunk, cut.range);
        encode_words(inner, out, scratch);
      }
    }
  };
  if (added.any(false)) {
    added.cut(
        text.bytes(), false, allowed, [&](std::uint32_t i) { return text.origin(i); }, cuts);
    for (const auto& cut : cuts) {
      if (cut.id >= 0) {
        put_token(text, cut);
      } else {
        part.assign(text, cut.range);
        normalize_and_encode(part);
      }
    }
  } else {
    normalize_and_encode(text);
  }
  if (options.add_special)
    for (Token id : post_processor.back)
      put(out, id, static_cast<std::uint32_t>(input.size()), static_cast<std::uint32_t>(input.size()));
  return scratch.steps;
}

void Pipeline::encode_words(AlignedText& text, Encoding& out, ModelScratch& scratch) const {
  if (text.size() == 0) return;
  std::size_t first = out.ids.size();
  if (!pre_tokenizer.splitter) {
    model->encode(text.bytes(), 0, out, scratch);
  } else {
    std::vector<ByteRange> words = {{0, text.size()}};
    pre_tokenizer.splitter->apply(text, words);
    for (ByteRange w : words) model->encode(text.bytes().substr(w.begin, w.end - w.begin), w.begin, out, scratch);
  }
  for (std::size_t i = first; i < out.offsets.size(); ++i) out.offsets[i] = text.origin(out.offsets[i]);
}

std::string Pipeline::piece(Token id) const {
  if (const AddedToken* token = added.find(id)) return token->text;
  return std::string(model->vocabulary.spelling(id));
}

std::string Pipeline::decoded_piece(Token id) const {
  const AddedToken* token = added.find(id);
  return token ? token->decoded : std::string(model->vocabulary.spelling(id));
}

std::optional<Token> Pipeline::find(std::string_view piece) const {
  if (const AddedToken* token = added.find(piece)) return token->id;
  Token id = model->vocabulary.find(piece);
  return id < 0 || added.find(id) ? std::nullopt : std::optional(id);
}

bool Pipeline::is_special(Token id) const {
  const AddedToken* token = added.find(id);
  return token && token->special;
}

std::string Pipeline::text_bytes(Token id, bool first) const {
  if (!added.find(id) && !model->vocabulary.has(id)) return "";
  std::string token = decoded_piece(id);
  if (decoder) decoder->decode_one(token, first);
  else if (!first) token = " " + token;
  return token;
}

std::string Pipeline::decode(std::span<const Token> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (Token id : ids) {
    if (skip_special && is_special(id)) continue;
    if (added.find(id) || model->vocabulary.has(id)) tokens.push_back(decoded_piece(id));
  }
  if (decoder) decoder->decode(tokens);
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!decoder && i > 0) out += ' ';
    out += tokens[i];
  }
  return out;
}

namespace {

class PipelineStream : public StreamDecoder {
 public:
  PipelineStream(const Pipeline& tokenizer, bool skip_special) : tokenizer_(tokenizer), skip_special_(skip_special) {}

  std::string next(Token id) override {
    if (skip_special_ && tokenizer_.is_special(id)) return "";
    if (!tokenizer_.added.find(id) && !tokenizer_.model->vocabulary.has(id)) return "";
    held_ += tokenizer_.text_bytes(id, first_);
    first_ = false;
    std::size_t tail = incomplete_utf8_tail(held_);
    std::string out = replace_invalid_utf8(std::string_view(held_).substr(0, held_.size() - tail));
    held_.erase(0, held_.size() - tail);
    return out;
  }
  std::string finish() override {
    std::string out = replace_invalid_utf8(held_);
    held_.clear();
    return out;
  }

 private:
  const Pipeline& tokenizer_;
  bool skip_special_, first_ = true;
  std::string held_;
};

}  // namespace

std::unique_ptr<StreamDecoder> Pipeline::stream(bool skip_special) const {
  return std::make_unique<PipelineStream>(*this, skip_special);
}

}  // namespace dml
