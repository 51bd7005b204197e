// Coverage-guided fuzzing of everything that reads files, requests and recipes of others, with libFuzzer
// (tools/fuzz.sh). Any input either works or throws dml::Error; everything else is a finding: another exception, a
// report of a sanitizer, too much memory or time.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/adapter_io.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "constraint/automaton.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/utf8.h"
#include "data/records.h"
#include "exchange/gguf_file.h"
#include "exchange/gguf_model.h"
#include "exchange/gguf_vocabulary.h"
#include "jinja/template.h"
#include "recipe/recipe.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/text/onig_pattern.h"
#include "tokenizer/text/unicode.h"
#include "tokenizer/tokenizer_json.h"

namespace dml {
namespace {

// A file of this process, for readers that map their input.
std::string file_with(std::string_view bytes, const char* extension) {
  static const std::string folder = [] {
    const std::string path = std::filesystem::temp_directory_path() / ("dml_fuzz_" + std::to_string(getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  const std::string path = folder + "/input" + extension;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void json(std::string_view input) { dump(parse_json(input, "input")); }

void recipe(std::string_view input) { resolved_yaml(read_recipe(std::string(input), "recipe.yml"), true); }

void model_config(std::string_view input) { read_model_config(parse_json(input, "config.json"), "config.json"); }

void adapter_config(std::string_view input) {
  adapter_config_text(read_adapter_config(parse_json(input, "adapter_config.json"), "adapter_config.json", "llama"));
}

void chat_template(std::string_view input) {
  static const jinja::Value context = jinja::from_json(parse_json(
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi ☺"},
          {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "id": "c1",
           "function": {"name": "f", "arguments": {"x": 1.5, "y": [true, null]}}}]},
          {"role": "tool", "content": "3"}], "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true,
          "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})",
      "context"));
  jinja::RenderOptions options;
  options.max_steps = 20'000;
  jinja::Template(input, "template").render(context, options);
}

// What a loaded tokenizer must survive. The ids that it returns must be its own.
void use(const std::unique_ptr<Pipeline>& pipeline) {
  pipeline->prepare();
  const Tokenizer& tokenizer = *pipeline;
  constexpr std::string_view kText = "Hello  wörld,\t12345 don't\n\n☺<s></s> \xff\xfe ﬁ é́";
  const Encoding encoding = tokenizer.encode(kText, {.add_special = true});
  for (const Token id : encoding.ids)
    if (id < 0 || id >= tokenizer.size()) std::abort();
  for (const ByteRange& range : encoding.offsets)
    if (range.begin > range.end || range.end > kText.size()) std::abort();
  tokenizer.decode(encoding.ids);
  const std::unique_ptr<StreamDecoder> stream = tokenizer.stream();
  for (const Token id : encoding.ids) stream->next(id);
  stream->finish();
  for (Token id = 0; id < std::min<Token>(tokenizer.size(), 64); ++id) tokenizer.text_bytes(id, id == 0);
}

void tokenizer_json(std::string_view input) {
  use(make_pipeline(parse_tokenizer_json(input, "tokenizer.json"), "tokenizer.json"));
}

void sentencepiece(std::string_view input) {
  use(make_sentencepiece(parse_sentencepiece_model(input, "tokenizer.model"), true, "tokenizer.model"));
}

// A pattern in the first line, a text behind it. Matches must follow each other and end at whole characters.
void onig_pattern(std::string_view input) {
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string text = replace_invalid_utf8(input.substr(std::min(line + 1, input.size())));
  std::vector<ByteRange> matches;
  OnigPattern(input.substr(0, line), "pattern").find_all(text, matches);
  std::uint32_t done = 0;
  for (const ByteRange& match : matches) {
    if (match.begin < done || match.end < match.begin || match.end > text.size()) std::abort();
    for (const std::uint32_t at : {match.begin, match.end})
      if (incomplete_utf8_tail(std::string_view(text).substr(0, at)) != 0) std::abort();
    done = match.end;
  }
}

void safetensors(std::string_view input) {
  const SafetensorsFile file(file_with(input, ".safetensors"));
  for (const TensorView& tensor : file.tensors())
    if (tensor.readable() && tensor.size() < 4096) tensor.floats("input");
}

void gguf(std::string_view input) {
  const auto file = std::make_shared<const GgufFile>(file_with(input, ".gguf"));
  try {
    vocabulary_of(*file);
  } catch (const UserError&) {  // the rest of the file is worth reading
  }
  gguf_weights(file, read_model_config(gguf_config(*file), "input.gguf"));
}

void rows_of(std::string_view input, RowForm form, const char* extension) {
  RowReader reader({file_with(input, extension), form, "fuzzing", ','});
  Json record;
  for (RawRow row; reader.next(row);) {
    try {
      reader.parse(row, record);
      dump(record);
    } catch (const UserError&) {  // of this row
    }
  }
}
void json_lines(std::string_view input) { rows_of(input, RowForm::json_lines, ".jsonl"); }
void json_array(std::string_view input) { rows_of(input, RowForm::json_array, ".json"); }
void csv(std::string_view input) { rows_of(input, RowForm::csv, ".csv"); }
void parquet(std::string_view input) { rows_of(input, RowForm::parquet, ".parquet"); }
void arrow(std::string_view input) { rows_of(input, RowForm::arrow, ".arrow"); }

// Follows the automaton along bytes that it allows. Every live state must have a completion.
void follow(Automaton& automaton) {
  Automaton::State state = automaton.start();
  for (unsigned step = 0; state != Automaton::kDead && step < 64; ++step) {
    Automaton::State next = Automaton::kDead;
    for (unsigned i = 0; i < 256 && next == Automaton::kDead; ++i)
      next = automaton.after(state, static_cast<unsigned char>(i * 37 + step * 11 + 'a'));
    if (next == Automaton::kDead && !automaton.may_end(state)) std::abort();
    state = next;
  }
}
void grammar(std::string_view input) { follow(*grammar_automaton(input, "grammar")); }
void regex(std::string_view input) { follow(*regex_automaton(input)); }
void json_schema(std::string_view input) { follow(*schema_automaton(input, "schema", JsonSpace::one)); }

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
};
constexpr Target kTargets[] = {
    {"json", json},
    {"recipe", recipe},
    {"model_config", model_config},
    {"adapter_config", adapter_config},
    {"chat_template", chat_template},
    {"tokenizer_json", tokenizer_json},
    {"sentencepiece", sentencepiece},
    {"onig_pattern", onig_pattern},
    {"safetensors", safetensors},
    {"gguf", gguf},
    {"json_lines", json_lines},
    {"json_array", json_array},
    {"csv", csv},
    {"parquet", parquet},
    {"arrow", arrow},
    {"grammar", grammar},
    {"regex", regex},
    {"json_schema", json_schema},
};

void (*chosen)(std::string_view input) = nullptr;

constexpr std::size_t kCounters = std::size_t{1} << 17;
unsigned char counters[kCounters];  // basic blocks share them

}  // namespace
}  // namespace dml

extern "C" {
void __sanitizer_cov_8bit_counters_init(unsigned char* begin, unsigned char* end);
void __sanitizer_cov_trace_pc() {
  const auto at = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++dml::counters[(at ^ (at >> 17)) % dml::kCounters];
}
// libFuzzer learns from compared integers only.
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
}

// libFuzzer leaves options that begin with two hyphens to the program.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    for (const dml::Target& target : dml::kTargets)
      if (argument == "--target=" + std::string(target.name)) dml::chosen = target.run;
    if (argument != "--targets") continue;
    for (const dml::Target& target : dml::kTargets) std::puts(std::string(target.name).c_str());
    std::exit(0);
  }
  dml::set_log_level(dml::LogLevel::silent);
  __sanitizer_cov_8bit_counters_init(dml::counters, dml::counters + dml::kCounters);
  if (!dml::chosen) {
    std::fputs("--target=NAME is missing; --targets lists the names\n", stderr);
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    dml::chosen({reinterpret_cast<const char*>(data), size});
  } catch (const dml::Error&) {
  }
  return 0;
}
