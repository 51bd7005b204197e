// Converts the tokenizer of a GGUF file to files of Hugging Face.
#include <algorithm>
#include <cmath>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "core/files.h"
#include "core/protobuf.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "exchange/gguf_model.h"
#include "exchange/gguf_phi3.h"
#include "tokenizer/text/scanner.h"
#include "tokenizer/text/vocabulary.h"

namespace dml {
namespace {

using V = GgufVocabulary;

// ---- from the file

const GgufValue& list_of(const GgufFile& file, const char* name, bool texts) {
  const std::string key = std::string("tokenizer.ggml.") + name;
  const GgufValue* value = file.metadata().find(key);
  if (!value) throw UserError("{}: key '{}' is missing", file.path(), key);
  if (value->type() != GgufValue::Type::array || value->is_array_of_texts() != texts)
    throw UserError("{}: key '{}' must be a list of {}", file.path(), key, texts ? "texts" : "numbers");
  return *value;
}

void check_texts(const V& v, const std::string& path) {
  if (v.tokens.empty() || std::ssize(v.tokens) > kMaxVocabulary)
    throw UserError("{}: a vocabulary of {} tokens; 1 to {} are allowed", path, v.tokens.size(), kMaxVocabulary);
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (v.tokens[i].size() > kMaxTokenBytes || find_invalid_utf8(v.tokens[i]) != std::string::npos)
      throw UserError("{}: token {} is too long or not valid UTF-8", path, i);
  for (const std::string& m : v.merges)
    if (m.find(' ', 1) == std::string::npos || find_invalid_utf8(m) != std::string::npos)
      throw UserError("{}: merge '{}' is not a pair", path, shown(m, 60));
}

// ---- SentencePiece's protobuf (sentencepiece_model.proto)

std::string with_marks(std::string text) {
  for (std::size_t at = 0; (at = text.find(' ', at)) != text.npos; at += kSpaceMark.size())
    text.replace(at, 1, kSpaceMark);
  return text;
}

std::string sentencepiece_model(const V& v) {
  using namespace protobuf;
  std::string model;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    std::string piece;
    add_bytes(piece, 1, v.types[i] == V::user_defined ? with_marks(v.tokens[i]) : v.tokens[i]);
    add_float(piece, 2, v.scores[i]);
    if (v.types[i] != V::normal) add_integer(piece, 3, v.types[i]);
    add_bytes(model, 1, piece);
  }
  std::string trainer;
  add_integer(trainer, 3, v.model == "t5" ? 1 : 2);  // unigram, byte-pair encoding
  add_integer(trainer, 35, std::ranges::count(v.types, V::byte) > 0);
  for (const auto& [field, id] : {std::pair{40, v.unk}, {41, v.bos}, {42, v.eos}, {43, v.pad}})
    add_integer(trainer, field, id.value_or(-1));
  add_bytes(model, 2, trainer);
  std::string normalizer;
  add_bytes(normalizer, 1, v.charsmap.empty() ? "identity" : "precompiled");
  if (!v.charsmap.empty()) add_bytes(normalizer, 2, v.charsmap);
  add_integer(normalizer, 3, v.add_space_prefix.value_or(true));
  add_integer(normalizer, 4, v.remove_extra_whitespaces.value_or(false));
  add_integer(normalizer, 5, 1);
  add_bytes(model, 3, normalizer);
  return model;
}

// ---- tokenizer.json

bool is_llama3(const std::string& pre) {
  return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3" || pre == "falcon3";
}

// llama.cpp's defaults, for files that do not say whether a text begins with BOS and ends with EOS.
bool adds_bos(const V& v) { return v.add_bos.value_or(v.model == "llama" || is_llama3(v.pre)); }
bool adds_eos(const V& v) { return v.add_eos.value_or(v.model == "t5"); }

Json pre_tokenizer_of(const std::string& pre, const std::string& where) {
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  auto one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, pre) != names.end();
  };
  if (one_of({"gpt-2", "phi-2", "olmo", "mpt", "jais", "gigachat"})) return bytes;
  if (one_of({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}))
    return {{"type", "Sequence"},
            {"pretokenizers", Json::array({Json{{"type", "Digits"}, {"individual_digits", true}}, bytes})}};
  const bool three = is_llama3(pre) || pre == "smaug-bpe";
  if (!three && !one_of({"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan-dense", "megrez"}))
    throw UserError(
        "{}: its pre-tokenizer '{}' is not known; name a folder with this model's tokenizer.json in tokenizer_config",
        where, pre);
  bytes["use_regex"] = false;
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", Scanner::cl100k_pattern(three ? 3 : 1)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
}

// llama.cpp matches every added token in the text as it is, before any space is put in front of it.
Json added_token(Token id, const V& v) {
  const auto i = static_cast<std::size_t>(id);
  const bool special = v.types[i] == V::control;
  return {{"id", id},
          {"content", v.tokens[i]},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", v.strips_right.contains(id)},
          {"normalized", false},
          {"special", special}};
}

Json added_tokens(const V& v) {
  Json out = Json::array();
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (v.types[i] == V::control || v.types[i] == V::user_defined) out.push_back(added_token(static_cast<Token>(i), v));
  return out;
}

Json post_processor(const V& v) {
  const bool front = adds_bos(v) && v.bos, back = adds_eos(v) && v.eos;
  if (!front && !back) return nullptr;
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  auto special = [&](Json& list, Token id, int type) {
    const std::string& text = v.tokens[static_cast<std::size_t>(id)];
    list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
    tokens[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
  };
  auto sequence = [&](Json& list, const char* name, int type) {
    if (front) special(list, *v.bos, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (back) special(list, *v.eos, type);
  };
  sequence(single, "A", 0);
  sequence(pair, "A", 0), sequence(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

// Vocabulary and merges are written directly, since a JSON tree would take many times their size.
std::string byte_level_json(const V& v, const std::string& where) {
  Json front = {{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", added_tokens(v)},
                {"normalizer", nullptr},
                {"pre_tokenizer", pre_tokenizer_of(v.pre, where)},
                {"post_processor", post_processor(v)},
                {"decoder", {{"type", "ByteLevel"}}}};
  std::string text = dump(front);
  text.pop_back();
  text += R"(,"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
          R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":)";
  text += is_llama3(v.pre) ? "true" : "false";
  text += ",\"vocab\":{";
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.types[i] != V::normal && v.types[i] != V::byte) continue;
    text += fmt::format("{}{}:{}", first ? "" : ",", dump(Json(v.tokens[i])), i);
    first = false;
  }
  text += "},\"merges\":[";
  for (std::size_t i = 0; i < v.merges.size(); ++i) text += (i ? "," : "") + dump(Json(v.merges[i]));
  return text + "]}}\n";
}

Json config_json(const V& v) {
  Json config = {{"tokenizer_class", v.is_sentencepiece() ? "LlamaTokenizer" : "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (v.is_sentencepiece()) config["legacy"] = true, config["add_prefix_space"] = v.add_space_prefix.value_or(true);
  config["add_bos_token"] = adds_bos(v);
  config["add_eos_token"] = adds_eos(v);
  const std::pair<const char*, std::optional<Token>> names[] = {
      {"bos_token", v.bos}, {"eos_token", v.eos}, {"unk_token", v.unk}, {"pad_token", v.pad}, {"eot_token", v.eot}};
  for (auto& [name, id] : names)
    if (id) config[name] = v.tokens[static_cast<std::size_t>(*id)];
  Json added = Json::object();
  for (const Json& t : added_tokens(v)) {
    Json entry = t;
    entry.erase("id");
    added[std::to_string(t["id"].get<Token>())] = entry;
  }
  config["added_tokens_decoder"] = added;
  if (!v.chat_template.empty() && v.named_templates.empty()) config["chat_template"] = v.chat_template;
  if (!v.named_templates.empty()) {
    Json list = Json::array();
    if (!v.chat_template.empty()) list.push_back({{"name", "default"}, {"template", v.chat_template}});
    for (auto& [name, text] : v.named_templates) list.push_back({{"name", name}, {"template", text}});
    config["chat_template"] = list;
  }
  return config;
}

}  // namespace

GgufVocabulary vocabulary_of(const GgufFile& file) {
  V v;
  v.model = file.text("tokenizer.ggml.model");
  if (!v.is_sentencepiece() && v.model != "gpt2")
    throw UserError(
        "{}: its tokenizer is of kind '{}'; dml reads llama, t5 and gpt2. Name a folder with this model's tokenizer in "
        "tokenizer_config",
        file.path(), shown(v.model, 40));
  v.pre = file.text("tokenizer.ggml.pre", v.is_sentencepiece() ? "default" : "gpt-2");
  v.tokens = list_of(file, "tokens", true).strings();
  const std::size_t n = v.tokens.size();
  v.types.assign(n, V::normal);
  if (file.metadata().find("tokenizer.ggml.token_type")) {
    const GgufValue& types = list_of(file, "token_type", false);
    if (types.count() != n) throw UserError("{}: {} types of {} tokens", file.path(), types.count(), n);
    for (std::size_t i = 0; i < n; ++i)
      if (auto t = types.integer(i); t >= V::normal && t <= V::byte) v.types[i] = static_cast<std::int32_t>(t);
  }
  if (v.is_sentencepiece()) {
    const GgufValue& scores = list_of(file, "scores", false);
    if (scores.count() != n) throw UserError("{}: {} scores of {} tokens", file.path(), scores.count(), n);
    for (std::size_t i = 0; i < n; ++i) v.scores.push_back(static_cast<float>(scores.number(i)));
    if (!std::ranges::all_of(v.scores, [](float x) { return std::isfinite(x); }))
      throw UserError("{}: a token's score is not finite", file.path());
    if (v.model == "t5" && file.metadata().find("tokenizer.ggml.precompiled_charsmap"))
      v.charsmap = list_of(file, "precompiled_charsmap", false).raw();
  } else {
    v.merges = list_of(file, "merges", true).strings();
  }
  check_texts(v, file.path());
  const std::pair<const char*, std::optional<Token>*> ids[] = {
      {"bos", &v.bos}, {"eos", &v.eos}, {"unknown", &v.unk}, {"padding", &v.pad}, {"eot", &v.eot}, {"eom", &v.eom}};
  for (auto& [name, to] : ids)
    if (const auto id = file.integer(fmt::format("tokenizer.ggml.{}_token_id", name), -1);
        id >= 0 && id < std::ssize(v.tokens))
      *to = static_cast<Token>(id);
  const std::pair<const char*, std::optional<bool>*> flags[] = {
      {"add_bos_token", &v.add_bos},
      {"add_eos_token", &v.add_eos},
      {"add_space_prefix", &v.add_space_prefix},
      {"remove_extra_whitespaces", &v.remove_extra_whitespaces}};
  for (auto& [name, to] : flags)
    if (const std::string key = std::string("tokenizer.ggml.") + name; file.metadata().find(key))
      *to = file.truth(key, false);
  v.strips_right = stripping_tokens(v, file.text("general.name", ""));
  v.chat_template = file.text("tokenizer.chat_template", "");
  if (const GgufValue* names = file.metadata().find("tokenizer.chat_templates"); names && names->is_array_of_texts())
    for (const std::string& name : names->strings())
      v.named_templates.emplace_back(name, file.text("tokenizer.chat_template." + name, ""));
  return v;
}

void write_tokenizer(const GgufVocabulary& v, const std::string& folder) {
  if (v.is_sentencepiece()) write_file(folder + "/tokenizer.model", sentencepiece_model(v));
  else write_file(folder + "/tokenizer.json", byte_level_json(v, folder));
  write_file(folder + "/tokenizer_config.json", pretty_json(config_json(v)));
}

void write_gguf_companions(const GgufFile& file, const std::string& folder) {
  const Json config = gguf_config(file);
  write_file(folder + "/config.json", pretty_json(config));
  Json generation = Json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (!config[key].is_null()) generation[key] = config[key];
  write_file(folder + "/generation_config.json", pretty_json(generation));
  if (file.text("tokenizer.ggml.model", "none") != "none") write_tokenizer(vocabulary_of(file), folder);
}

}  // namespace dml
