#include "exchange/modelfile.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "exchange/ollama_template.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFirstLine = "# Written by dml";

// Quotes a text for a Modelfile.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + "\"";
}

// The text of the token whose id is stored under `key`; empty if the key or the token is missing.
std::string token_named(const GgufFile& file, const char* key) {
  const GgufValue* tokens = file.metadata().find("tokenizer.ggml.tokens");
  const std::int64_t id = file.integer(key, -1);
  if (!tokens || !tokens->is_array_of_texts() || id < 0 || id >= std::ssize(tokens->strings())) return "";
  return tokens->strings()[static_cast<std::size_t>(id)];
}

constexpr const char *kBosKey = "tokenizer.ggml.bos_token_id", *kEosKey = "tokenizer.ggml.eos_token_id",
                     *kEotKey = "tokenizer.ggml.eot_token_id";

std::vector<std::string> stop_texts(const GgufFile& file, const std::string& end_of_answer) {
  std::vector<std::string> unique;
  for (const std::string& text : {end_of_answer, token_named(file, kEosKey), token_named(file, kEotKey)})
    if (!text.empty() && std::ranges::find(unique, text) == unique.end()) unique.push_back(text);
  return unique;
}

}  // namespace

std::string ollama_modelfile(const GgufFile& file, const std::string& directory) {
  const std::string name = fs::path(file.path()).filename().string(), jinja = file.text("tokenizer.chat_template", "");
  std::string out = fmt::format("{}: ollama create NAME -f Modelfile\nFROM ./{}\n", kFirstLine, name);
  const std::optional<OllamaTemplate> own =
      jinja.empty() ? std::nullopt : ollama_template(jinja, token_named(file, kBosKey), token_named(file, kEosKey));
  if (own) out += fmt::format("TEMPLATE \"\"\"{}\"\"\"\n", own->text);
  if (!jinja.empty() && !own)
    log_info(
        "The chat template cannot be expressed as an ollama TEMPLATE; ollama uses the one in {} if it recognizes it",
        name);
  for (const std::string& stop : stop_texts(file, own ? own->end_of_answer : ""))
    out += fmt::format("PARAMETER stop {}\n", in_quotes(stop));
  if (const std::int64_t context = file.integer(file.text("general.architecture", "") + ".context_length", 0);
      context > 0)
    out += fmt::format("PARAMETER num_ctx {}\n", std::min<std::int64_t>(context, 8192));
  const std::string generation = directory + "/generation_config.json";
  if (!file_exists(generation)) return out;
  const Json given = read_json(generation, {.bytes = 1 << 20});
  if (!given.is_object()) return out;
  auto set = [&](const char* parameter, const char* key) {
    if (given.contains(key) && given[key].is_number())
      out += fmt::format("PARAMETER {} {}\n", parameter, dump(given[key]));
  };
  if (given.contains("do_sample") && given["do_sample"] == false) out += "PARAMETER temperature 0\n";
  else
    for (const char* key : {"temperature", "top_k", "top_p", "min_p"}) set(key, key);
  set("repeat_penalty", "repetition_penalty");
  return out;
}

void write_modelfile(const std::string& gguf, const std::string& directory) {
  const fs::path folder = fs::path(gguf).parent_path();
  const std::string path = (folder.empty() ? fs::path(".") : folder) / "Modelfile";
  if (file_exists(path) && !read_text_file(path, 1 << 20).starts_with(kFirstLine)) {
    log_info("{} is left as it is; ollama reads the new file with FROM ./{}", path, fs::path(gguf).filename().string());
    return;
  }
  write_file(path, ollama_modelfile(GgufFile(gguf), directory));
  log_info("For ollama: ollama create NAME -f {}", path);
}

}  // namespace dml
