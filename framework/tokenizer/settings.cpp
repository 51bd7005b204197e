#include "tokenizer/settings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/model_file_names.h"
#include "core/shown.h"
#include "core/utf8.h"
#include "tokenizer/text/vocabulary.h"

namespace dml {
namespace {

constexpr std::size_t kMaxTemplate = 256 << 10, kMaxConfig = 4 << 20;

// Reads a token given as a text or as {"content": text, "lstrip": …}.
void read_named(const Json& config, const char* key, TokenizerSettings::Named& into, const std::string& file) {
  auto it = config.find(key);
  if (it == config.end() || it->is_null()) return;
  if (it->is_string()) {
    into = {it->get<std::string>()};
  } else if (it->is_object()) {
    std::string where = fmt::format("{}: {}", file, key);
    into = {json_string(*it, "content", "", where), json_bool(*it, "lstrip", false, where),
            json_bool(*it, "rstrip", false, where), json_bool(*it, "single_word", false, where)};
  } else {
    throw UserError("{}: '{}' must be a string or an object with 'content', is {}", file, key, shown(dump(*it), 60));
  }
  if (into.text->empty()) into.text.reset();
}

void read_special(const Json& config, TokenizerSettings& out, const std::string& file) {
  read_named(config, "bos_token", out.bos, file);
  read_named(config, "eos_token", out.eos, file);
  read_named(config, "pad_token", out.pad, file);
  read_named(config, "unk_token", out.unk, file);
  auto list = config.find("additional_special_tokens");
  if (list == config.end() || list->is_null()) return;
  if (!list->is_array()) throw UserError("{}: 'additional_special_tokens' must be a list", file);
  for (const Json& entry : *list) {
    std::string text = entry.is_string() ? entry.get<std::string>() : json_string(entry, "content", "", file);
    if (!text.empty() && std::find(out.additional_special_tokens.begin(), out.additional_special_tokens.end(), text) ==
                             out.additional_special_tokens.end())
      out.additional_special_tokens.push_back(text);
  }
}

std::optional<bool> read_flag(const Json& config, const char* key, const std::string& file) {
  auto it = config.find(key);
  if (it == config.end() || it->is_null()) return std::nullopt;
  return json_bool(config, key, false, file);
}

std::string checked_template(std::string text, const std::string& where) {
  if (text.size() > kMaxTemplate)
    throw UserError("{}: a chat template of {} bytes, the limit is {}", where, text.size(), kMaxTemplate);
  if (std::size_t bad = find_invalid_utf8(text); bad != text.npos)
    throw UserError("{}: byte {} is not valid UTF-8", where, bad);
  return text;
}

void set_template(const std::string& name, std::string text, TokenizerSettings& out) {
  if (name == "default") {
    out.chat_template = std::move(text);
    return;
  }
  for (auto& [known, old] : out.named_templates)
    if (known == name) {
      old = std::move(text);
      return;
    }
  out.named_templates.emplace_back(name, std::move(text));
}

// Reads a text, or a list of {"name": …, "template": …}, one of which may be named "default".
void read_template(const Json& config, TokenizerSettings& out, const std::string& file) {
  auto it = config.find("chat_template");
  if (it == config.end() || it->is_null()) return;
  std::string where = file + ": chat_template";
  if (it->is_string()) {
    out.chat_template = checked_template(it->get<std::string>(), where);
    return;
  }
  if (!it->is_array()) throw UserError("{}: must be a string or a list of {{name, template}}", where);
  std::vector<std::string> names;
  for (const Json& entry : *it) {
    if (!entry.is_object()) throw UserError("{}: must be a string or a list of {{name, template}}", where);
    std::string name = json_string(entry, "name", "", where);
    if (name.empty()) throw UserError("{}: an entry has no 'name'", where);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw UserError("{}: '{}' is given twice", where, shown(name, 60));
    names.push_back(name);
    set_template(name, checked_template(json_string(entry, "template", "", where), where), out);
  }
}

void read_added(const Json& config, TokenizerSettings& out, const std::string& file) {
  auto table = config.find("added_tokens_decoder");
  if (table == config.end() || table->is_null()) return;
  if (!table->is_object()) throw UserError("{}: 'added_tokens_decoder' must be an object", file);
  for (auto& [key, entry] : table->items()) {
    std::string where = fmt::format("{}: added_tokens_decoder.{}", file, shown(key, 40));
    AddedToken token;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || token.id < 0 || token.id >= kMaxVocabulary)
      throw UserError("{}: the key must be a token id", where);
    if (!entry.is_object()) throw UserError("{}: must be an object with 'content'", where);
    token.text = json_string(entry, "content", "", where);
    token.special = json_bool(entry, "special", false, where);
    token.normalized = json_bool(entry, "normalized", !token.special, where);
    token.lstrip = json_bool(entry, "lstrip", false, where);
    token.rstrip = json_bool(entry, "rstrip", false, where);
    token.single_word = json_bool(entry, "single_word", false, where);
    if (token.text.empty()) throw UserError("{}: 'content' is empty", where);
    out.added.push_back(std::move(token));
  }
}

void read_added_file(const std::string& file, TokenizerSettings& out) {
  JsonLimits limits;
  limits.bytes = kMaxConfig;
  limits.object_keys = AddedTokens::kMaxCount;
  WideJson table = read_wide_json(file, limits);
  if (!table.is_object()) throw UserError("{}: must be an object {{token: id}}", file);
  std::vector<AddedToken> tokens;
  for (auto& [text, id] : table.items()) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= kMaxVocabulary)
      throw UserError("{}: '{}' must have a token id, has {}", file, shown(text, 60), shown(id.dump(), 40));
    bool known = std::any_of(out.added.begin(), out.added.end(),
                             [&, &text = text](const AddedToken& t) { return t.text == text; });
    AddedToken token;
    token.id = id.get<Token>();
    token.text = text;
    if (!known) tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end(), [](auto& a, auto& b) { return a.id < b.id; });
  out.added.insert(out.added.end(), tokens.begin(), tokens.end());
}

}  // namespace

std::vector<std::string> named_template_files(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(fmt::format("{}/{}", directory, kTemplateFolder), ignored), end;
       it != end; it.increment(ignored))
    if (it->path().extension() == kTemplateExtension) names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TokenizerSettings read_settings(const std::string& directory) {
  TokenizerSettings out;
  auto present = [&](const std::string& name) {
    std::string path = directory + "/" + name;
    if (!file_exists(path)) return std::string();
    out.files.push_back(path);
    return path;
  };
  JsonLimits limits;
  limits.bytes = kMaxConfig;
  limits.object_keys = 8192;
  Json config = Json::object();
  std::string config_file = present("tokenizer_config.json");
  if (!config_file.empty()) config = read_json(config_file, limits);
  if (!config.is_object()) throw UserError("{}: must be an object", config_file);
  if (std::string file = present("special_tokens_map.json"); !file.empty()) {
    Json map = read_json(file, limits);
    if (!map.is_object()) throw UserError("{}: must be an object", file);
    read_special(map, out, file);
  }
  read_special(config, out, config_file);  // the config takes precedence over special_tokens_map.json
  read_added(config, out, config_file);
  if (std::string file = present("added_tokens.json"); !file.empty()) read_added_file(file, out);
  out.add_bos = read_flag(config, "add_bos_token", config_file);
  out.add_eos = read_flag(config, "add_eos_token", config_file);
  out.add_prefix_space = read_flag(config, "add_prefix_space", config_file);
  out.legacy = read_flag(config, "legacy", config_file);
  out.tokenizer_class = json_string(config, "tokenizer_class", "", config_file);
  read_template(config, out, config_file);
  if (std::string file = present("chat_template.jinja"); !file.empty())
    out.chat_template = checked_template(read_text_file(file, kMaxConfig), file);
  for (const std::string& name : named_template_files(directory))
    if (std::string file = present(fmt::format("{}/{}", kTemplateFolder, name)); !file.empty())
      set_template(name.substr(0, name.size() - kTemplateExtension.size()),
                   checked_template(read_text_file(file, kMaxConfig), file), out);
  return out;
}

}  // namespace dml
