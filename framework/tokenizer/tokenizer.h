// Text to token ids and back: one interface for SentencePiece models and Hugging Face's tokenizer.json.
//
// Special tokens in a text are parsed only outside of ranges that the caller marks as literal, so that text of the data
// can never become a special token.
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
  std::vector<ByteRange>
      offsets;  // the bytes of the input that each id covers; an empty range for tokens that were added
};

struct EncodeOptions {
  bool add_special = false;                 // add BOS / EOS as the tokenizer's post-processor does
  bool parse_special = true;                // special tokens in the text become their ids …
  std::span<const ByteRange> literal = {};  // … except inside these ranges (sorted, not overlapping)
};

/// Decodes ids incrementally; never returns an incomplete character.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  /// Adds an id; returns the text that is complete after it.
  virtual std::string next(Token id) = 0;
  /// Returns the remaining text; incomplete characters become U+FFFD.
  virtual std::string finish() = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Thread-safe.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const {
    Encoding out;
    encode_into(out, text, options);
    return out;
  }
  /// Like encode(), for callers that reuse the memory of `out`.
  virtual void encode_into(Encoding& out, std::string_view text, const EncodeOptions& options) const = 0;
  virtual std::string decode(std::span<const Token> ids, bool skip_special = false) const = 0;
  virtual std::unique_ptr<StreamDecoder> stream(bool skip_special = true) const = 0;

  /// Ids are in [0, size()).
  virtual Token size() const = 0;
  /// The token's spelling in the vocabulary.
  virtual std::string piece(Token id) const = 0;
  virtual std::optional<Token> find(std::string_view piece) const = 0;
  virtual bool is_special(Token id) const = 0;
  /// The bytes that a token adds to a text decoded token by token, which may be a part of a character. `first`: at the
  /// beginning of the text. Empty for ids without a token.
  virtual std::string text_bytes(Token id, bool first) const = 0;

  std::optional<Token> bos, eos, pad, unk;
  bool adds_bos = false, adds_eos = false;  // whether add_special adds them
  std::vector<Token> untrained;             // tokens that the recipe added or renamed, whose embeddings are untrained
  std::string chat_template;                // default template of the model directory; "" if it has none
  std::vector<std::pair<std::string, std::string>> named_templates;
  std::string digest;     // digest of all files it was loaded from and of the recipe's changes
  std::string directory;  // of these files
};

/// A recipe's changes to a tokenizer.
struct TokenizerOverrides {
  std::optional<std::string> bos_token = {}, eos_token = {}, pad_token = {}, unk_token = {};
  std::vector<std::string> additional_special_tokens = {};
  std::vector<std::string> tokens = {};                          // ordinary added tokens
  std::vector<std::pair<Token, std::string>> added_tokens = {};  // id → new spelling of a reserved token
  bool metaspace = false;  // Metaspace in place of tokenizer.json's normalizer, as transformers 5's LlamaTokenizer
};

/// Loads the tokenizer of a Hugging Face model directory: tokenizer.json, else tokenizer.model, else vocab.json and
/// merges.txt; with tokenizer_config.json, special_tokens_map.json, added_tokens.json and chat_template.jinja. Throws
/// UserError if none can be read.
///
/// tokenizer.json takes precedence over tokenizer.model: inference programs read it, and only it has tokens and rules
/// that were added after the SentencePiece model was trained.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory, const TokenizerOverrides& overrides = {});

/// Copies the tokenizer files of `source` to the existing folder `target`; with overrides, files that name changed
/// tokens are rewritten. Loading the target without overrides gives the same tokenizer as loading the source with them.
void save_tokenizer_files(const std::string& source, const TokenizerOverrides& overrides, const std::string& target);

/// Makes `chat_template` the default template of the tokenizer in `target`: writes chat_template.jinja and updates
/// tokenizer_config.json, which is created if missing, with transformers' class for these files. `eot_token`: the
/// end-of-turn token, "" if none. `tokenizer`: the one in `target`. Everything else in the config is preserved byte for
/// byte.
void save_chat_template(const Tokenizer& tokenizer, const std::string& chat_template, const std::string& eot_token,
                        const std::string& target);
/// Leaves the tokenizer in `target` without a default template.
void remove_chat_template(const std::string& target);

}  // namespace dml
