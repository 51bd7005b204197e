#include "exchange/modelfile.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFirstLine = "# Written by dml";

// A substring that identifies a Jinja template, and the same template in Go's text/template.
struct KnownTemplate {
  std::string_view sign;
  std::string_view text;
  std::vector<std::string> stops;
};

const std::vector<KnownTemplate>& known_templates() {
  static const std::vector<KnownTemplate> templates{
      {"<|im_start|>",
       "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
       {"<|im_end|>"}},
      {"<|start_header_id|>",
       "{{- range .Messages }}<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n{{ .Content }}<|eot_id|>{{ end "
       "}}<|start_header_id|>assistant<|end_header_id|>\n\n",
       {"<|eot_id|>"}},
      {"<start_of_turn>",
       "{{- range .Messages }}<start_of_turn>{{ if eq .Role \"assistant\" }}model{{ else }}user{{ end }}\n{{ .Content "
       "}}<end_of_turn>\n"
       "{{ end }}<start_of_turn>model\n",
       {"<end_of_turn>"}},
      {"<|end|>",
       "{{- range .Messages }}<|{{ .Role }}|>\n{{ .Content }}<|end|>\n{{ end }}<|assistant|>\n",
       {"<|end|>"}},
      {"[INST]",
       "{{- range $i, $m := .Messages }}{{ if eq .Role \"assistant\" }}{{ .Content }}</s>{{ else }}[INST] {{ .Content "
       "}} [/INST]{{ end }}{{ end }}",
       {"</s>"}},
      {"### Response:",
       "{{- range .Messages }}{{ if eq .Role \"assistant\" }}### Response:\n{{ .Content }}\n\n{{ else if eq .Role "
       "\"system\" }}{{ .Content }}\n\n{{ else }}### Instruction:\n{{ .Content }}\n\n{{ end }}{{ end }}### Response:\n",
       {}}};
  return templates;
}

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

std::vector<std::string> stop_texts(const GgufFile& file, const KnownTemplate* known) {
  std::vector<std::string> out = known ? known->stops : std::vector<std::string>();
  const GgufValue* tokens = file.metadata().find("tokenizer.ggml.tokens");
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const std::int64_t id = file.integer(key, -1);
    if (tokens && tokens->is_array_of_texts() && id >= 0 && id < std::ssize(tokens->strings()))
      out.push_back(tokens->strings()[static_cast<std::size_t>(id)]);
  }
  std::vector<std::string> unique;
  for (std::string& text : out)
    if (!text.empty() && std::ranges::find(unique, text) == unique.end()) unique.push_back(std::move(text));
  return unique;
}

}  // namespace

std::string ollama_modelfile(const GgufFile& file, const std::string& directory) {
  const std::string name = fs::path(file.path()).filename().string(), jinja = file.text("tokenizer.chat_template", "");
  std::string out = fmt::format("{}: ollama create NAME -f Modelfile\nFROM ./{}\n", kFirstLine, name);
  const KnownTemplate* known = nullptr;
  for (const KnownTemplate& t : known_templates())
    if (!known && jinja.find(t.sign) != jinja.npos) known = &t;
  if (known) out += fmt::format("TEMPLATE \"\"\"{}\"\"\"\n", known->text);
  for (const std::string& stop : stop_texts(file, known)) out += fmt::format("PARAMETER stop {}\n", in_quotes(stop));
  if (const std::int64_t context = file.integer(file.text("general.architecture", "") + ".context_length", 0);
      context > 0)
    out += fmt::format("PARAMETER num_ctx {}\n", std::min<std::int64_t>(context, 8192));
  const std::string generation = directory + "/generation_config.json";
  if (!file_exists(generation)) return out;
  const Json given = read_json(generation, {.bytes = 1 << 20});
  constexpr std::array<std::pair<const char*, const char*>, 5> kSampling = {{{"temperature", "temperature"},
                                                                             {"top_k", "top_k"},
                                                                             {"top_p", "top_p"},
                                                                             {"min_p", "min_p"},
                                                                             {"repetition_penalty", "repeat_penalty"}}};
  if (given.is_object())
    for (const auto& [key, parameter] : kSampling)
      if (given.contains(key) && given[key].is_number())
        out += fmt::format("PARAMETER {} {}\n", parameter, dump(given[key]));
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
