#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/closest.h"
#include "core/error.h"
#include "core/log.h"
#include "core/shown.h"
#include "tokenizer/stages/bpe.h"
#include "tokenizer/stages/json_fields.h"
#include "tokenizer/stages/unigram.h"
#include "tokenizer/stages/word_models.h"
#include "tokenizer/text/unicode.h"

namespace dml {
namespace {

const Json& member(const Json& object, const char* key) {
  static const Json none;
  auto it = object.find(key);
  return it == object.end() ? none : *it;
}

void fill_vocabulary(const TokenizerJson& json, Vocabulary& vocabulary, std::string_view source) {
  vocabulary.reserve(json.tokens.size(), json.tokens.block.size());
  bool list = json.ids.empty();
  for (std::size_t i = 0; i < json.tokens.size(); ++i) {
    std::string_view token = json.tokens[i];
    std::int64_t id = list ? static_cast<std::int64_t>(i) : json.ids[i];
    if (id < 0 || id >= kMaxVocabulary)
      throw UserError("{}: model.vocab: '{}' has id {}, ids go from 0 to {}", source, shown(token), id,
                      kMaxVocabulary - 1);
    if (vocabulary.has(static_cast<Token>(id)))
      throw UserError("{}: model.vocab: id {} is both '{}' and '{}'", source, id,
                      shown(vocabulary.spelling(static_cast<Token>(id))), shown(token));
    if (!vocabulary.add(token, static_cast<Token>(id)))
      throw UserError("{}: model.vocab: '{}' occurs twice", source, shown(token));
  }
}

// The unknown token. It is an error if it is named but missing, since this would otherwise fail in the middle of a run.
Token find_unknown(const Json& model, const Vocabulary& vocabulary, std::string_view source,
                   const char* fallback = "") {
  std::string name = json_string(model, "unk_token", fallback, source);
  if (name.empty()) return -1;
  Token id = vocabulary.find(name);
  if (id < 0 && model.contains("unk_token"))
    throw UserError("{}: model.unk_token '{}' is not in the vocabulary", source, shown(name));
  return id;
}

std::unique_ptr<Model> make_bpe(const TokenizerJson& json, const Json& model, bool byte_level,
                                std::string_view source) {
  auto bpe = std::make_unique<Bpe>();
  fill_vocabulary(json, bpe->vocabulary, source);
  if (!json.has_merges) throw UserError("{}: model.merges is missing", source);
  Bpe::Options options;
  options.byte_level = byte_level;
  options.byte_fallback = json_bool(model, "byte_fallback", false, source);
  options.fuse_unk = json_bool(model, "fuse_unk", false, source);
  options.ignore_merges = json_bool(model, "ignore_merges", false, source);
  options.continuing_prefix = json_string(model, "continuing_subword_prefix", "", source);
  options.word_suffix = json_string(model, "end_of_word_suffix", "", source);
  options.unk = find_unknown(model, bpe->vocabulary, source);
  double dropout = json_number(model, "dropout", 0, source);
  if (dropout < 0 || dropout > 1) throw UserError("{}: model.dropout must be between 0 and 1, is {}", source, dropout);
  if (dropout > 0)
    log_warning("{}: model.dropout {} is not applied: the same text always gives the same ids", source, dropout);

  const Vocabulary& vocabulary = bpe->vocabulary;
  bpe->reserve_merges(json.merges.size() / 2);
  std::string joined;
  for (std::size_t i = 0; i + 1 < json.merges.size(); i += 2) {
    std::string_view left = json.merges[i], right = json.merges[i + 1];
    Token a = vocabulary.find(left), b = vocabulary.find(right);
    if (a < 0 || b < 0)
      throw UserError("{}: merge {} ('{}' '{}'): '{}' is not in the vocabulary", source, i / 2, shown(left),
                      shown(right), shown(a < 0 ? left : right));
    if (right.size() < options.continuing_prefix.size() || !right.starts_with(options.continuing_prefix))
      throw UserError("{}: merge {} ('{}' '{}'): '{}' does not begin with the continuing_subword_prefix '{}'", source,
                      i / 2, shown(left), shown(right), shown(right), shown(options.continuing_prefix));
    joined.assign(left).append(right.substr(options.continuing_prefix.size()));
    Token merged = vocabulary.find(joined);
    if (merged < 0)
      throw UserError("{}: merge {} ('{}' '{}'): '{}' is not in the vocabulary", source, i / 2, shown(left),
                      shown(right), shown(joined));
    bpe->add_merge(a, b, static_cast<std::uint32_t>(i / 2), merged);
  }
  if (byte_level && options.unk < 0) {
    int missing = 0;
    for (int b = 0; b < 256; ++b)
      missing += vocabulary.find(bytes_to_spelling(std::string(1, static_cast<char>(b)))) < 0;
    if (missing > 0)
      log_warning("{}: {} of 256 bytes have no token, so these bytes of a text are lost", source, missing);
  }
  bpe->prepare(options);
  return bpe;
}

// Indices of special tokens. If special tokens are parsed, they are split off before the model; if not, their spelling
// is ordinary text.
std::set<std::size_t> special_ids(const Json& added) {
  std::set<std::size_t> ids;
  if (!added.is_array()) return ids;
  for (const Json& token : added)
    if (token.is_object() && token.contains("special") && token["special"] == true && token.contains("id") &&
        token["id"].is_number_unsigned())
      ids.insert(token["id"].get<std::size_t>());
  return ids;
}

std::unique_ptr<Model> make_unigram(const TokenizerJson& json, const Json& model, std::string_view source) {
  if (json.scores.size() != json.tokens.size())
    throw UserError("{}: model.vocab of a Unigram must be a list of [token, score]", source);
  auto unigram = std::make_unique<Unigram>();
  const std::set<std::size_t> special = special_ids(member(json.root, "added_tokens"));
  fill_vocabulary(json, unigram->vocabulary, source);
  for (std::size_t i = 0; i < json.tokens.size(); ++i) {
    if (json.tokens[i].empty()) throw UserError("{}: model.vocab: token {} is empty", source, i);
    if (!std::isfinite(json.scores[i]))
      throw UserError("{}: model.vocab: the score of '{}' is not finite", source, shown(json.tokens[i]));
    if (special.contains(i)) unigram->count_score(json.scores[i]);
    else unigram->add_piece(static_cast<Token>(i), json.scores[i]);
  }
  auto unk = json_integer(model, "unk_id", -1, source);
  if (unk < -1 || unk >= static_cast<std::int64_t>(json.tokens.size()))
    throw UserError("{}: model.unk_id is {}, there are {} tokens", source, unk, json.tokens.size());
  unigram->prepare({static_cast<Token>(unk), json_bool(model, "byte_fallback", false, source), false});
  return unigram;
}

std::string model_type(const Json& model, const TokenizerJson& json, std::string_view source) {
  std::string type = json_string(model, "type", "", source);
  if (!type.empty()) return type;
  return json.has_merges                               ? "BPE"
         : !json.scores.empty()                        ? "Unigram"
         : model.contains("continuing_subword_prefix") ? "WordPiece"
                                                       : "WordLevel";
}

std::unique_ptr<Model> make_model(const TokenizerJson& json, const Json& model, bool byte_level,
                                  std::string_view source) {
  std::string type = model_type(model, json, source);
  if (type == "BPE") return make_bpe(json, model, byte_level, source);
  if (type == "Unigram") return make_unigram(json, model, source);
  if (type == "WordPiece") {
    auto out = std::make_unique<WordPiece>();
    fill_vocabulary(json, out->vocabulary, source);
    out->unk = find_unknown(model, out->vocabulary, source, "[UNK]");
    out->continuing_prefix = json_string(model, "continuing_subword_prefix", "##", source);
    auto longest = json_integer(model, "max_input_chars_per_word", 100, source);
    if (longest < 1 || longest > 4096)
      throw UserError("{}: model.max_input_chars_per_word must be between 1 and 4096, is {}", source, longest);
    out->max_characters = static_cast<std::size_t>(longest);
    return out;
  }
  if (type == "WordLevel") {
    auto out = std::make_unique<WordLevel>();
    fill_vocabulary(json, out->vocabulary, source);
    out->unk = find_unknown(model, out->vocabulary, source);
    return out;
  }
  static const std::vector<std::string> known = {"BPE", "Unigram", "WordPiece", "WordLevel"};
  throw UserError("{}: model: unknown type '{}'{}", source, shown(type), did_you_mean(type, known));
}

void add_tokens(const Json& list, Pipeline& out, std::string_view source) {
  if (list.is_null()) return;
  if (!list.is_array()) throw UserError("{}: 'added_tokens' must be a list", source);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& entry = list[i];
    std::string where = fmt::format("{}: added_tokens[{}]", source, i);
    if (!entry.is_object()) throw UserError("{}: must be an object", where);
    AddedToken token;
    token.text = json_string(entry, "content", "", where);
    auto id = json_integer(entry, "id", -1, where);
    if (id < 0 || id >= kMaxVocabulary)
      throw UserError("{}: id {} is not between 0 and {}", where, id, kMaxVocabulary - 1);
    token.id = static_cast<Token>(id);
    token.special = json_bool(entry, "special", false, where);
    token.normalized = json_bool(entry, "normalized", !token.special, where);
    token.lstrip = json_bool(entry, "lstrip", false, where);
    token.rstrip = json_bool(entry, "rstrip", false, where);
    token.single_word = json_bool(entry, "single_word", false, where);
    // As in Hugging Face's tokenizers, a token in the model's vocabulary keeps the model's id.
    if (Token known = out.model->vocabulary.find(token.text); known >= 0 && known != token.id) {
      log_warning("{}: '{}' has id {} here, the vocabulary says {}, which is used", where, shown(token.text), token.id,
                  known);
      token.id = known;
    } else if (known < 0 && out.model->vocabulary.has(token.id)) {
      throw UserError("{}: id {} of '{}' is '{}' in the vocabulary", where, token.id, shown(token.text),
                      shown(out.model->vocabulary.spelling(token.id)));
    }
    if (const AddedToken* same = out.added.find(token.id); same && same->text != token.text)
      throw UserError("{}: id {} is both '{}' and '{}'", where, token.id, shown(same->text), shown(token.text));
    out.added.add(std::move(token), where);
  }
}

}  // namespace

std::unique_ptr<Pipeline> make_pipeline(const TokenizerJson& json, std::string_view source) {
  if (!json.root.is_object()) throw UserError("{}: must be an object, with 'model' and more", source);
  const Json& model = member(json.root, "model");
  if (!model.is_object()) throw UserError("{}: 'model' is missing", source);
  if (!json.has_vocabulary) throw UserError("{}: model.vocab is missing", source);
  std::string where(source);
  auto out = std::make_unique<Pipeline>();
  bool reads_bytes = model_type(model, json, source) == "BPE" && !json_bool(model, "byte_fallback", false, source) &&
                     json_string(model, "continuing_subword_prefix", "", source).empty() &&
                     json_string(model, "end_of_word_suffix", "", source).empty();
  out->normalizer = make_normalizer(member(json.root, "normalizer"), where + ": normalizer");
  out->pre_tokenizer = make_pre_tokenizer(member(json.root, "pre_tokenizer"), reads_bytes, where + ": pre_tokenizer");
  out->model = make_model(json, model, out->pre_tokenizer.byte_level, source);
  add_tokens(member(json.root, "added_tokens"), *out, source);
  Token size = out->model->vocabulary.size();
  for (const AddedToken& token : out->added.all()) size = std::max(size, token.id + 1);
  out->post_processor = make_post_processor(member(json.root, "post_processor"), size, where + ": post_processor");
  out->decoder = make_decoder(member(json.root, "decoder"), where + ": decoder");
  return out;
}

}  // namespace dml
