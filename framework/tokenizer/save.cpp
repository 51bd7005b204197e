// Copies the files of a tokenizer to the folder of a trained model. Files that name tokens which the recipe changed are
// rewritten; in tokenizer.json only the affected spans are replaced, so that the rest keeps its formatting.
#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/model_file_names.h"
#include "tokenizer/load.h"

namespace dml {
namespace {

struct Span {
  std::size_t begin = 0, end = 0;
};

// Locates values in JSON text that is known to be valid.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) {}

  Span value(std::size_t at) const {
    at = skip_space(at);
    std::size_t end = at;
    if (text_[at] == '"') {
      end = string_end(at);
    } else if (text_[at] == '{' || text_[at] == '[') {
      int depth = 0;
      do {
        if (text_[end] == '"') {
          end = string_end(end);
          continue;
        }
        if (text_[end] == '{' || text_[end] == '[') ++depth;
        if (text_[end] == '}' || text_[end] == ']') --depth;
        ++end;
      } while (depth > 0);
    } else {
      while (end < text_.size() && std::string_view(",]} \t\r\n").find(text_[end]) == std::string_view::npos) ++end;
    }
    return {at, end};
  }
  /// Calls each(key, value) (or each({}, value) for an array) until it returns true.
  void members(Span container, const std::function<bool(Span, Span)>& each) const {
    bool object = text_[container.begin] == '{';
    std::size_t at = skip_space(container.begin + 1);
    while (at + 1 < container.end) {
      Span key;
      if (object) {
        key = value(at);
        at = skip_space(key.end) + 1;  // after the colon
      }
      Span found = value(at);
      if (each(key, found)) return;
      at = skip_space(found.end);
      if (text_[at] == ',') at = skip_space(at + 1);
    }
  }
  Span member(Span object, std::string_view name) const {
    Span found;
    members(object, [&](Span key, Span v) { return string(key) == name ? (found = v, true) : false; });
    return found;
  }
  std::string string(Span s) const { return Json::parse(text_.substr(s.begin, s.end - s.begin)).get<std::string>(); }

 private:
  std::size_t skip_space(std::size_t at) const {
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\t' || text_[at] == '\r')) ++at;
    return at;
  }
  std::size_t string_end(std::size_t at) const {
    for (++at; text_[at] != '"'; ++at)
      if (text_[at] == '\\') ++at;
    return at + 1;
  }
  std::string_view text_;
};

std::string pretty(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json added_entry(const AddedToken& t) {
  return {{"content", t.text},  {"single_word", t.single_word}, {"lstrip", t.lstrip},
          {"rstrip", t.rstrip}, {"normalized", t.normalized},   {"special", t.special}};
}

std::vector<AddedToken> sorted_tokens(const Pipeline& pipeline) {
  std::vector<AddedToken> out = pipeline.added.all();
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.id < b.id; });
  return out;
}

Json post_processor(const Pipeline& pipeline) {
  Json parts = Json::array(), specials = Json::object();
  auto add = [&](Token id) {
    std::string name = pipeline.piece(id);
    parts.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    specials[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  for (Token id : pipeline.post_processor.front) add(id);
  parts.push_back(text);
  for (Token id : pipeline.post_processor.back) add(id);
  Json pair = parts;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"}, {"single", parts}, {"pair", pair}, {"special_tokens", specials}};
}

std::string rewrite_tokenizer_json(const std::string& text, const Pipeline& before, const Pipeline& now) {
  JsonText json(text);
  Span root = json.value(0);
  std::vector<std::pair<Span, std::string>> edits;
  Json added = Json::array();
  for (const AddedToken& t : sorted_tokens(now)) {
    Json entry = {{"id", t.id}};
    entry.update(added_entry(t));
    added.push_back(entry);
  }
  if (Span span = json.member(root, "added_tokens"); span.end > 0) edits.emplace_back(span, dump(added));
  else edits.emplace_back(Span{root.begin + 1, root.begin + 1}, "\"added_tokens\":" + dump(added) + ",");
  if (before.post_processor.front != now.post_processor.front ||
      before.post_processor.back != now.post_processor.back) {
    std::string processor = dump(post_processor(now));
    if (Span span = json.member(root, "post_processor"); span.end > 0) edits.emplace_back(span, processor);
    else edits.emplace_back(Span{root.begin + 1, root.begin + 1}, "\"post_processor\":" + processor + ",");
  }
  // A renamed reserved token that is also in the model's vocabulary.
  Span vocabulary = json.member(json.member(root, "model"), "vocab");
  std::int64_t index = -1;
  json.members(vocabulary, [&](Span key, Span value) {
    ++index;
    bool list = key.end == 0;
    Span spelling = list && text[value.begin] == '[' ? json.value(value.begin + 1) : key;
    Token id =
        list ? static_cast<Token>(index) : static_cast<Token>(std::strtol(text.c_str() + value.begin, nullptr, 10));
    const AddedToken* token = now.added.find(id);
    if (token && token->text != before.piece(id)) edits.emplace_back(spelling, dump(Json(token->text)));
    return false;
  });
  std::sort(edits.begin(), edits.end(), [](auto& a, auto& b) { return a.first.begin < b.first.begin; });
  std::string out;
  std::size_t done = 0;
  for (auto& [span, replacement] : edits) {
    out.append(text, done, span.begin - done).append(replacement);
    done = span.end;
  }
  return out.append(text, done);
}

void set_names(Json& config, const Pipeline& now, const TokenizerOverrides& overrides) {
  auto set = [&](const char* key, const std::optional<Token>& id) {
    if (id) config[key] = now.piece(*id);
  };
  set("bos_token", now.bos);
  set("eos_token", now.eos);
  set("pad_token", now.pad);
  set("unk_token", now.unk);
  Json& list = config["additional_special_tokens"];
  if (!list.is_array()) list = Json::array();
  for (const std::string& text : overrides.additional_special_tokens)
    if (std::find(list.begin(), list.end(), Json(text)) == list.end()) list.push_back(text);
  if (list.empty()) config.erase("additional_special_tokens");
}

// Renames reserved tokens in a list of special tokens.
void rename_in(Json& list, const Pipeline& before, const Pipeline& now) {
  if (!list.is_array()) return;
  for (Json& entry : list) {
    Json* text = entry.is_object() && entry.contains("content") ? &entry["content"] : &entry;
    if (!text->is_string()) continue;
    if (auto id = before.find(text->get<std::string>())) *text = now.piece(*id);
  }
}

// Returns the JSON object `text` with a member set to `value`; a new member is inserted at the front.
std::string with_member(const std::string& text, const std::string& key, const std::string& value) {
  JsonText json(text);
  const Span root = json.value(0), old = json.member(root, key);
  std::string out = text;
  if (old.end > 0) return out.replace(old.begin, old.end - old.begin, value);
  bool empty = true;
  json.members(root, [&](Span, Span) { return !(empty = false); });
  return out.insert(root.begin + 1, fmt::format("\n  {}: {}{}", dump(Json(key)), value, empty ? "\n" : ","));
}

// The value of "chat_template" with `text` as the default: alone, or among the named templates.
Json default_template(const Json& old, const std::string& text) {
  if (!old.is_array()) return text;
  Json list = Json::array({Json{{"name", "default"}, {"template", text}}});
  for (const Json& entry : old)
    if (entry.is_object() && entry.contains("name") && entry["name"] != "default") list.push_back(entry);
  return list;
}

// A minimal tokenizer_config.json for transformers: the class and the named special tokens.
Json new_config(const Tokenizer& tokenizer, const std::string& folder) {
  Json config = {{"tokenizer_class", file_exists(folder + "/tokenizer.json")    ? "PreTrainedTokenizerFast"
                                     : file_exists(folder + "/tokenizer.model") ? "LlamaTokenizer"
                                                                                : "GPT2Tokenizer"}};
  auto name = [&](const char* key, const std::optional<Token>& id) {
    if (id) config[key] = tokenizer.piece(*id);
  };
  name("bos_token", tokenizer.bos);
  name("eos_token", tokenizer.eos);
  name("pad_token", tokenizer.pad);
  name("unk_token", tokenizer.unk);
  return config;
}

bool changes_tokens(const TokenizerOverrides& o) {
  return o.bos_token || o.eos_token || o.pad_token || o.unk_token || !o.additional_special_tokens.empty() ||
         !o.tokens.empty() || !o.added_tokens.empty() || o.metaspace;
}

}  // namespace

void save_tokenizer_files(const std::string& source, const TokenizerOverrides& overrides, const std::string& target) {
  std::vector<std::string> names(kTokenizerFiles.begin(), kTokenizerFiles.end());
  const std::string templates(kTemplateFolder);
  for (const std::string& name : named_template_files(source)) names.push_back(templates + "/" + name);
  make_directories(target);
  for (const std::string& name : names) {
    if (!file_exists(source + "/" + name)) continue;
    if (name.find('/') != name.npos) make_directories(target + "/" + templates);
    write_file(target + "/" + name, read_file(source + "/" + name));
  }
  if (!changes_tokens(overrides)) return;

  auto before = load_pipeline(source), now = load_pipeline(source, overrides);
  JsonLimits limits;
  limits.object_keys = AddedTokens::kMaxCount;
  auto rewrite = [&](const char* name, bool create, const std::function<void(Json&)>& change) {
    std::string path = target + "/" + name;
    bool there = file_exists(path);
    if (!there && !create) return;
    Json config = there ? read_json(path, limits) : Json::object();
    change(config);
    write_file(path, pretty(config));
  };
  if (file_exists(source + "/tokenizer.json"))
    write_file(target + "/tokenizer.json",
               rewrite_tokenizer_json(read_file(source + "/tokenizer.json"), *before, *now));
  if (overrides.metaspace) {
    const std::string file = target + "/tokenizer.json";
    write_file(file, with_member(with_member(read_file(file), "normalizer", "null"), "pre_tokenizer",
                                 dump(metaspace_splitter(read_settings(source)))));
  }
  rewrite("tokenizer_config.json", true, [&](Json& config) {
    rename_in(config["additional_special_tokens"], *before, *now);
    set_names(config, *now, overrides);
    Json added = Json::object();
    for (const AddedToken& t : sorted_tokens(*now)) added[std::to_string(t.id)] = added_entry(t);
    config["added_tokens_decoder"] = added;
  });
  rewrite("special_tokens_map.json", false, [&](Json& map) {
    rename_in(map["additional_special_tokens"], *before, *now);
    set_names(map, *now, overrides);
  });
  rewrite("added_tokens.json", false, [&](Json& map) {
    map = Json::object();
    for (const AddedToken& t : sorted_tokens(*now))
      if (t.id >= now->model->vocabulary.size()) map[t.text] = t.id;
  });
}

void save_chat_template(const Tokenizer& tokenizer, const std::string& chat_template, const std::string& eot_token,
                        const std::string& target) {
  write_file(target + "/chat_template.jinja", chat_template);
  const std::string path = target + "/tokenizer_config.json";
  JsonLimits limits;
  limits.object_keys = AddedTokens::kMaxCount;
  std::string text = file_exists(path) ? read_file(path) : pretty(new_config(tokenizer, target));
  const Json config = parse_json(text, path, limits);
  const Json old = config.contains("chat_template") ? config["chat_template"] : Json();
  text = with_member(text, "chat_template", dump(default_template(old, chat_template)));
  if (!eot_token.empty()) text = with_member(text, "eot_token", dump(Json(eot_token)));
  write_file(path, text);
}

void remove_chat_template(const std::string& target) {
  std::filesystem::remove(target + "/chat_template.jinja");
  const std::string path = target + "/tokenizer_config.json";
  if (!file_exists(path)) return;
  JsonLimits limits;
  limits.object_keys = AddedTokens::kMaxCount;
  const std::string text = read_file(path);
  const Json config = parse_json(text, path, limits);
  if (!config.contains("chat_template")) return;
  Json left = default_template(config["chat_template"], "");
  if (left.is_array()) left.erase(0);
  write_file(path, with_member(text, "chat_template", left.is_array() && !left.empty() ? dump(left) : "null"));
}

}  // namespace dml
