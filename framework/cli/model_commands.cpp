// dml info, dml convert: describe and convert model and adapter directories.
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "hub/fetch.h"
#include "pipeline/convert.h"
#include "pipeline/info.h"

namespace dml {
namespace {

struct Info {
  std::string directory;
  bool json = false;
  Options options{"info",
                  "info PATH [--json]",
                  {"dml info models/llama", "dml info llama-q4_k_m.gguf", "dml info outputs/lora --json"}};
  Info() {
    options.about(
        "Describes a model or adapter directory, or a GGUF file: family, sizes, element types, tokenizer, chat "
        "template, and whether dml can use it. Exits with 2 when it cannot, with the reason.");
    options.positional("PATH", directory, "a model or adapter directory, or a GGUF file");
    options.flag("json", json, "print one JSON object");
  }
};

int run_info(const std::vector<std::string>& words) {
  Info in;
  in.options.parse(words);
  DirectoryInfo info = describe_directory(in.directory);
  if (in.json) {
    Json out = Json::object();
    for (auto& row : info.rows) out[row.key] = row.value;
    out["warnings"] = info.warnings;
    out["refused"] = info.refused;
    print(dump(out) + "\n");
  } else {
    for (auto& row : info.rows) print(fmt::format("{:<16} {}\n", row.key, row.text));
    for (auto& line : info.warnings) print(fmt::format("{:<16} {}\n", "warning", line));
    for (auto& line : info.refused) print(fmt::format("{:<16} {}\n", "refused", line));
  }
  return info.refused.empty() ? 0 : static_cast<int>(ExitCode::user);
}

struct Convert {
  Conversion what;
  std::optional<std::string> output, shard;
  bool tied = false, untied = false;
  Options options{"convert",
                  "convert PATH --output PATH [--format FORMAT] [--dtype TYPE] [--max-shard-size SIZE] [--tied | "
                  "--untied] [--base-model DIR]",
                  {"dml convert models/llama --dtype bf16 --max-shard-size 2GB --output models/llama-bf16",
                   "dml convert models/llama --format gguf --dtype q4_k_m --output llama-q4_k_m.gguf",
                   "dml convert llama-bf16.gguf --output models/llama",
                   "dml convert outputs/lora --format mlx --output outputs/lora-mlx"}};
  Convert() {
    options.about(
        "Writes a model in another element type, another division into files, with a tied or untied head, or as a GGUF "
        "file for llama.cpp and ollama, and a GGUF file as a model directory; or an adapter in the format of PEFT, "
        "mlx-lm or GGUF. The input is not changed.");
    options.positional("PATH", what.input, "a model or adapter directory, or a GGUF file");
    options.text("output", output, "the new directory; with --format gguf the new file, FILE.gguf", "PATH");
    options.text("dtype", what.dtype,
                 "element type of a model's weights. gguf also has q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, "
                 "q4_k_s, q4_1, q4_0. Default: as they are",
                 "TYPE");
    options.values("dtype", stored_types());
    options.text("max-shard-size", shard, "largest size of a model's files, such as 5GB or 500MB", "SIZE");
    options.flag("tied", tied, "leave out an lm_head that equals the embedding");
    options.flag("untied", untied, "give a tied model an lm_head of its own");
    options.choice("format", what.format, {"safetensors", "gguf", "peft", "mlx"},
                   "safetensors or gguf for a model, peft, mlx or gguf for an adapter");
    options.text("base-model", what.base_model, "the adapter's base model, if it is not where adapter_config.json says",
                 "DIR");
  }
};

int run_convert(const std::vector<std::string>& words) {
  Convert c;
  c.options.parse(words);
  if (!c.output) throw UserError("convert needs --output PATH");
  require_name_of_format("--output", *c.output, c.what.format == "gguf");
  if (c.tied && c.untied) throw UserError("set either --tied or --untied, not both");
  c.what.output = *c.output;
  if (!file_exists(c.what.input))
    if (const auto folder = hub_model_folder(c.what.input)) c.what.input = *folder;
  if (c.tied || c.untied) c.what.tied = c.tied;
  if (c.shard) c.what.max_shard_bytes = parse_size(*c.shard, "--max-shard-size");
  convert(c.what);
  print(*c.output + "\n");
  return 0;
}

}  // namespace

Command info_command() {
  return {"info", "describes a model or adapter directory", [] { return Info().options.page(); }, run_info};
}
Command convert_command() {
  return {"convert", "writes a model in another dtype or format, an adapter in another format",
          [] { return Convert().options.page(); }, run_convert};
}

}  // namespace dml
