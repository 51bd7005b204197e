// Loads the tokenizer of a model directory. Special tokens come from tokenizer.json or tokenizer.model, are overridden
// by tokenizer_config.json, and finally by the recipe.
#include <algorithm>

#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/shown.h"
#include "tokenizer/load.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/text/scanner.h"
#include "tokenizer/tokenizer_json.h"

namespace dml {
namespace {

// Classes whose fast version rebuilds the post-processor from add_bos_token and add_eos_token.
bool class_sets_specials(const std::string& name) {
  return name.starts_with("Llama") || name.starts_with("CodeLlama") || name.starts_with("Gemma") ||
         name.starts_with("Cohere");
}

// A JSON file. The parser holds two copies of the token that it reads, even of a string or white space of many
// megabytes, so such files are rejected first.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path) : file_(path) {
    constexpr std::size_t kFar = std::size_t{4} << 20;
    const std::string_view all = file_.text();
    for (std::size_t begin = 0; begin + kFar <= all.size(); begin += kFar) {
      const std::string_view part = all.substr(begin, kFar);
      std::size_t quote = part.find('"');
      while (quote != part.npos && quote > 0 && part[quote - 1] == '\\') quote = part.find('"', quote + 1);
      if (quote == part.npos)
        throw UserError("{}: 4 MiB without a string after byte {}: not a tokenizer file", path, begin);
    }
  }
  std::string_view text() const { return file_.text(); }

 private:
  MappedFile file_;
};

std::unique_ptr<Pipeline> from_vocabulary_and_merges(const std::string& vocabulary, const std::string& merges,
                                                     const TokenizerSettings& settings) {
  TokenizerJson json = parse_tokenizer_json(JsonFile(vocabulary).text(), vocabulary, true);
  if (!json.has_vocabulary) throw UserError("{}: must be an object {{token: id}}", vocabulary);
  parse_merges(read_file(merges, std::size_t{256} << 20), merges, json);
  bool prefix = settings.add_prefix_space.value_or(false);
  Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", true}};
  Json splitter = byte_level;
  json.root = Json::object();
  if (settings.tokenizer_class.starts_with("Qwen2")) {
    json.root["normalizer"] = {{"type", "NFC"}};
    byte_level["use_regex"] = false;
    Json split = {{"type", "Split"},
                  {"pattern", {{"Regex", Scanner::cl100k_pattern(1)}}},
                  {"behavior", "Isolated"},
                  {"invert", false}};
    splitter = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}};
  }
  json.root["pre_tokenizer"] = splitter;
  json.root["decoder"] = {{"type", "ByteLevel"}};
  json.root["model"] = {{"type", "BPE"}};
  return make_pipeline(json, vocabulary);
}

// The model of the file with another pre-tokenizer.
std::unique_ptr<Pipeline> with_metaspace(TokenizerJson json, const TokenizerSettings& settings,
                                         const std::string& file) {
  const Json& normalizer = json.root.contains("normalizer") ? json.root["normalizer"] : Json();
  const Json& splitter = json.root.contains("pre_tokenizer") ? json.root["pre_tokenizer"] : Json();
  if (dump(normalizer).find("▁") == std::string::npos && json_string(splitter, "type", "", file) != "Metaspace")
    throw UserError("tokenizer_metaspace: {} does not mark spaces as '▁'; remove the key", file);
  json.root["normalizer"] = nullptr;
  json.root["pre_tokenizer"] = metaspace_splitter(settings);
  return make_pipeline(json, file);
}

std::unique_ptr<Pipeline> from_files(const std::string& directory, TokenizerSettings& settings, bool metaspace) {
  auto present = [&](const char* name) {
    std::string path = directory + "/" + name;
    if (!file_exists(path)) return std::string();
    settings.files.push_back(path);
    return path;
  };
  if (std::string file = present("tokenizer.json"); !file.empty()) {
    TokenizerJson json = parse_tokenizer_json(JsonFile(file).text(), file);
    return metaspace ? with_metaspace(std::move(json), settings, file) : make_pipeline(json, file);
  }
  if (metaspace) throw UserError("tokenizer_metaspace: {} has no tokenizer.json; remove this key", directory);
  if (std::string file = present("tokenizer.model"); !file.empty()) {
    if (!settings.add_bos) settings.add_bos = true;
    return make_sentencepiece(parse_sentencepiece_model(read_file(file, SentencePieceModel::kMaxFile), file),
                              settings.legacy.value_or(true), file);
  }
  std::string vocabulary = present("vocab.json"), merges = present("merges.txt");
  if (!vocabulary.empty() && !merges.empty()) return from_vocabulary_and_merges(vocabulary, merges, settings);
  require_directory(directory);
  throw UserError("{}: has no tokenizer: expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt{}",
                  directory,
                  vocabulary.empty() && merges.empty() ? ""
                  : vocabulary.empty()                 ? "; vocab.json is missing"
                                                       : "; merges.txt is missing");
}

// tokenizer.json does not name bos and eos. If no config does, they are taken from the tokenizer.model that the file
// was converted from.
void take_names(const std::string& directory, const Pipeline& pipeline, TokenizerSettings& settings) {
  const std::string file = directory + "/tokenizer.model";
  if (settings.bos.text || settings.eos.text || !file_exists(file)) return;
  SentencePieceModel model;
  try {
    model = parse_sentencepiece_model(read_file(file, SentencePieceModel::kMaxFile), file);
  } catch (const UserError&) {
    return;  // another kind of model, which is not read
  }
  settings.files.push_back(file);
  for (auto& piece : model.pieces) {
    if (piece.type != SentencePieceModel::Type::control || !pipeline.find(piece.text)) continue;
    if (piece.text == model.bos_piece) settings.bos.text = piece.text;
    if (piece.text == model.eos_piece) settings.eos.text = piece.text;
  }
}

Token next_id(const Pipeline& pipeline) {
  Token next = pipeline.model->vocabulary.size();
  for (const AddedToken& token : pipeline.added.all()) next = std::max(next, token.id + 1);
  return next;
}

// The id of a token; if it does not exist, it is added after all others.
Token ensure_token(Pipeline& pipeline, const std::string& text, bool special, const TokenizerSettings::Named& flags,
                   std::string_view where) {
  if (const AddedToken* known = pipeline.added.find(text)) {
    Token id = known->id;
    if (special) pipeline.added.make_special(id);
    return id;
  }
  AddedToken token;
  token.text = text;
  token.special = special;
  token.lstrip = flags.lstrip;
  token.rstrip = flags.rstrip;
  token.single_word = flags.single_word;
  token.id = pipeline.model->vocabulary.find(text);
  if (token.id < 0) token.id = next_id(pipeline);
  pipeline.added.add(token, where);
  return token.id;
}

// Adds the tokens of the config. tokenizer.json has its own list of added tokens, so the config only supplements it;
// for other files the config is the list.
void add_configured(Pipeline& pipeline, const TokenizerSettings& settings, bool config_rules,
                    const std::string& where) {
  for (const AddedToken& token : settings.added) {
    if (config_rules) {
      pipeline.added.add(token, where);
      continue;
    }
    if (pipeline.added.find(token.id) || pipeline.added.find(token.text)) continue;
    Token known = pipeline.model->vocabulary.find(token.text);
    AddedToken copy = token;
    if (known >= 0) copy.id = known;
    else if (pipeline.model->vocabulary.has(token.id))
      throw UserError("{}: added token '{}' has id {}, which is '{}' in the vocabulary", where, shown(token.text, 60),
                      token.id, shown(pipeline.model->vocabulary.spelling(token.id), 60));
    if (!pipeline.added.find(copy.id)) pipeline.added.add(std::move(copy), where);
  }
  auto name = [&](const TokenizerSettings::Named& named, std::optional<Token>& id) {
    if (named.text) id = ensure_token(pipeline, *named.text, true, named, where);
  };
  name(settings.bos, pipeline.bos);
  name(settings.eos, pipeline.eos);
  name(settings.pad, pipeline.pad);
  name(settings.unk, pipeline.unk);
  for (const std::string& text : settings.additional_special_tokens) ensure_token(pipeline, text, true, {}, where);
}

void rename_reserved(Pipeline& pipeline, Token id, const std::string& text) {
  const AddedToken* old = pipeline.added.find(id);
  if (!old)
    throw UserError(
        "added_tokens_overrides: {} is not the id of an added token ({} to {} are in the vocabulary itself)", id, 0,
        pipeline.model->vocabulary.size() - 1);
  if (old->text != text && (pipeline.added.find(text) || pipeline.model->vocabulary.find(text) >= 0))
    throw UserError("added_tokens_overrides: '{}' is a token already", shown(text, 60));
  AddedToken token = *old;
  token.text = text;
  pipeline.added.add(std::move(token), "added_tokens_overrides");
}

// Sets a special token of the recipe, which also replaces the old one where the tokenizer adds it to texts.
void set_named(Pipeline& pipeline, const std::optional<std::string>& text, std::optional<Token>& id,
               std::string_view key) {
  if (!text) return;
  Token now = ensure_token(pipeline, *text, true, {}, fmt::format("special_tokens.{}", key));
  if (id)
    for (auto* ids : {&pipeline.post_processor.front, &pipeline.post_processor.back})
      std::replace(ids->begin(), ids->end(), *id, now);
  id = now;
}

std::string digest(const TokenizerSettings& settings, const TokenizerOverrides& o) {
  Hasher hash;
  std::vector<std::string> files = settings.files;
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) hash.text(file.substr(file.rfind('/') + 1)).text(digest_of_file(file));
  for (auto* text : {&o.bos_token, &o.eos_token, &o.pad_token, &o.unk_token})
    hash.text(text->value_or("")).number(text->has_value());
  for (auto* list : {&o.additional_special_tokens, &o.tokens}) {
    hash.number(list->size());
    for (const std::string& text : *list) hash.text(text);
  }
  for (auto& [id, text] : o.added_tokens) hash.number(static_cast<std::uint64_t>(id)).text(text);
  if (o.metaspace) hash.text("metaspace");
  return hash.digest();
}

}  // namespace

Json metaspace_splitter(const TokenizerSettings& settings) {
  const char* scheme = settings.add_prefix_space == false ? "never" : settings.legacy == true ? "always" : "first";
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
}

std::unique_ptr<Pipeline> load_pipeline(const std::string& directory, const TokenizerOverrides& overrides) {
  TokenizerSettings settings = read_settings(directory);
  std::unique_ptr<Pipeline> out = from_files(directory, settings, overrides.metaspace);
  std::string where = directory + "/tokenizer_config.json";
  bool has_json = file_exists(directory + "/tokenizer.json");
  if (has_json) take_names(directory, *out, settings);
  add_configured(*out, settings, !has_json, where);
  if (class_sets_specials(settings.tokenizer_class) || (!has_json && file_exists(directory + "/tokenizer.model"))) {
    if (settings.add_bos && out->bos) out->post_processor.front.assign(*settings.add_bos ? 1 : 0, *out->bos);
    if (settings.add_eos && out->eos) out->post_processor.back.assign(*settings.add_eos ? 1 : 0, *out->eos);
  }
  const Token known = next_id(*out);
  for (auto& [id, text] : overrides.added_tokens) {
    rename_reserved(*out, id, text);
    out->untrained.push_back(id);
  }
  for (const std::string& text : overrides.tokens) ensure_token(*out, text, false, {}, "tokens");
  set_named(*out, overrides.bos_token, out->bos, "bos_token");
  set_named(*out, overrides.eos_token, out->eos, "eos_token");
  set_named(*out, overrides.pad_token, out->pad, "pad_token");
  set_named(*out, overrides.unk_token, out->unk, "unk_token");
  for (const std::string& text : overrides.additional_special_tokens)
    ensure_token(*out, text, true, {}, "special_tokens.additional_special_tokens");
  for (Token id = known; id < next_id(*out); ++id) out->untrained.push_back(id);
  out->chat_template = settings.chat_template;
  out->named_templates = settings.named_templates;
  out->digest = digest(settings, overrides);
  out->directory = directory;
  out->prepare();
  return out;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory, const TokenizerOverrides& overrides) {
  return load_pipeline(directory, overrides);
}

}  // namespace dml
