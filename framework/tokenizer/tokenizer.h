// Text to token ids and back. One interface over SentencePiece models and Hugging Face tokenizer.json files.
//
// Special tokens written out in a text are parsed only where the caller says that the text is markup: what users put
// into their data stays text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/packed_batch.h"

namespace dml {

/// Half-open range of bytes.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct Encoding {
  std::vector<Token> ids;
  std::vector<ByteRange> offsets;  // the bytes of the input each id came from; empty range for tokens that were added
};

struct EncodeOptions {
  bool add_special = false;                 // bos / eos as the tokenizer's post-processor adds them
  bool parse_special = true;                // special tokens spelled out in the text become their ids …
  std::span<const ByteRange> literal = {};  // … but not inside these ranges (sorted, not overlapping)
};

/// Turns ids into text piece by piece; never gives out half a character.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  /// The text that is certain after one more id.
  virtual std::string next(Token id) = 0;
  /// Returns the remaining text; incomplete characters become U+FFFD.
  virtual std::string finish() = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Safe to call from many threads.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const {
    Encoding out;
    encode_into(out, text, options);
    return out;
  }
  /// Sets `out`; for callers that use its memory again.
  virtual void encode_into(Encoding& out, std::string_view text, const EncodeOptions& options) const = 0;
  virtual std::string decode(std::span<const Token> ids, bool skip_special = false) const = 0;
  virtual std::unique_ptr<StreamDecoder> stream(bool skip_special = true) const = 0;

  /// Ids are in [0, size()).
  virtual Token size() const = 0;
  /// The token's own spelling, as in the vocabulary.
  virtual std::string piece(Token id) const = 0;
  virtual std::optional<Token> find(std::string_view piece) const = 0;
  virtual bool is_special(Token id) const = 0;
  /// The bytes that a token adds to a text that is decoded one token at a time, perhaps a part of a character. `first`:
  /// at the beginning of the text. Empty for ids without a token.
  virtual std::string text_bytes(Token id, bool first) const = 0;

  std::optional<Token> bos, eos, pad, unk;
  bool adds_bos = false, adds_eos = false;  // what add_special does
  std::vector<Token> fresh;                 // tokens that the recipe added or renamed: their embeddings are untrained
  std::string chat_template;                // default template of the model directory, "" when it has none
  std::vector<std::pair<std::string, std::string>> named_templates;
  std::string digest;     // of every file it was made from, and what the recipe changes
  std::string directory;  // where these lie
};

/// Changes of a recipe to a tokenizer.
struct TokenizerOverrides {
  std::optional<std::string> bos_token = {}, eos_token = {}, pad_token = {}, unk_token = {};
  std::vector<std::string> additional_special_tokens = {};
  std::vector<std::string> tokens = {};                          // ordinary added tokens
  std::vector<std::pair<Token, std::string>> added_tokens = {};  // id → new spelling of a reserved token
  bool metaspace = false;  // Metaspace in place of tokenizer.json's normalizer, as transformers 5's LlamaTokenizer
};

/// From a Hugging Face model directory: tokenizer.json, else tokenizer.model, else vocab.json + merges.txt; with
/// tokenizer_config.json, special_tokens_map.json, added_tokens.json, chat_template.jinja. UserError when none can be
/// read.
///
/// tokenizer.json wins over a tokenizer.model beside it: it is what serving programs read, and it alone knows tokens
/// and rules that were added after the SentencePiece model was trained.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory, const TokenizerOverrides& overrides = {});

/// Puts a model directory's tokenizer into another folder (which exists), so that a trained model is complete: every
/// tokenizer file as it is, and where overrides change tokens, the files that name them rewritten. Loading the target
/// without overrides gives the same tokenizer as loading the source with them.
void save_tokenizer_files(const std::string& source, const TokenizerOverrides& overrides, const std::string& target);

/// Makes `chat_template` the default template of the tokenizer in `target`: chat_template.jinja and
/// tokenizer_config.json, which is created when it is missing, with the class that reads these files in transformers.
/// `eot_token` ("" for none) is the token that ends a turn; `tokenizer` is the one in `target`. Everything else in the
/// config stays byte for byte.
void save_chat_template(const Tokenizer& tokenizer, const std::string& chat_template, const std::string& eot_token,
                        const std::string& target);

}  // namespace dml
