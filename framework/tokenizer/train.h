// Training a tokenizer from text: libsentencepiece's trainer, and the files of a Hugging Face tokenizer directory.
//
// A trained tokenizer adds no space before a text and removes none, so that tokenizer.model and tokenizer.json
// give the same ids for every text (readers of the two formats disagree about a prefix space). With a normalization
// they may differ: the rule `Precompiled` of tokenizer.json maps a character and the marks and joiners that combine
// with it as one, and then drops some of them. The result depends on the text and the options only, not on the number
// of processor cores.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dml {

enum class SubwordModel { bpe, unigram };

struct TokenizerTraining {
  SubwordModel model = SubwordModel::bpe;
  std::int64_t vocab_size = 8000;      // all tokens: special ones, bytes, the alphabet, and subwords
  bool byte_fallback = true;           // unknown characters become their UTF-8 bytes; 256 tokens of the vocabulary
  bool split_digits = true;            // every digit is a token of its own
  double character_coverage = 0.9995;  // share of the text whose characters get tokens of their own; 0.98 to 1
  std::string normalization = "none";  // a row of normalization_rules()
  std::string unk = "<unk>", bos = "<s>", eos = "</s>";
  std::optional<std::string> pad;
  std::vector<std::string> special;  // tokens of a chat template and the like; never found in users' text
  std::vector<std::string> tokens;   // texts that are always one token
};

/// Names of the Unicode normalization rules, with a line of help each.
const std::vector<std::pair<std::string, std::string>>& normalization_rules();

/// Problems with the options, one line each; empty if they are valid.
std::vector<std::string> problems_of(const TokenizerTraining& options);

/// Sets the next text (UTF-8); returns false at the end.
using NextText = std::function<bool(std::string& text)>;
/// Starts over at the first text; called once for every pass.
using OpenTexts = std::function<NextText()>;

struct TrainedTokenizer {
  std::string model;        // a SentencePiece ModelProto: the contents of tokenizer.model
  std::int64_t size = 0;    // tokens
  std::int64_t texts = 0;   // read
  std::size_t bytes = 0;    // of these texts
  std::size_t trained = 0;  // bytes of them that were trained on
};

/// Trains on at most `sample_bytes` of the texts, evenly distributed. The library runs in a child process, since it
/// aborts on unexpected input. Throws UserError, with the option and a valid value, if the vocabulary is too small or
/// too large for the text; also if there is no text or a text is not UTF-8.
TrainedTokenizer train_tokenizer(const TokenizerTraining& options, const OpenTexts& open, std::size_t sample_bytes);

/// Writes tokenizer.model, tokenizer.json, tokenizer_config.json and special_tokens_map.json to an existing folder.
void write_tokenizer(const TokenizerTraining& options, const std::string& model, const std::string& folder);

}  // namespace dml
