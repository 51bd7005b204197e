// info, convert: model and adapter directories as they lie there.
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "pipeline/convert.h"
#include "pipeline/info.h"

namespace dml {
namespace {

struct Info {
  std::string directory;
  bool json = false;
  Options options{"info", "info DIR [--json]", {"dml info models/llama", "dml info outputs/lora --json"}};
  Info() {
    options.positional("DIR", directory, "a model or an adapter");
    options.flag("json", json, "one JSON object");
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
  Options options{
      "convert",
      "convert DIR --output DIR [--dtype T] [--max-shard-size S] [--tied | --untied] | [--format F] [--base-model DIR]",
      {"dml convert models/llama --dtype bf16 --max-shard-size 2GB --output models/llama-bf16",
       "dml convert outputs/lora --format mlx --output outputs/lora-mlx"}};
  Convert() {
    options.positional("DIR", what.input, "a model or an adapter");
    options.text("output", output, "a new directory");
    options.text("dtype", what.dtype, "a model's element type: f32, f16, bf16");
    options.text("max-shard-size", shard, "largest file of a model: 5GB, 500MB …");
    options.flag("tied", tied, "leave out a head that equals the embedding");
    options.flag("untied", untied, "give a tied model a head of its own");
    options.text("format", what.format, "an adapter's layout: peft, mlx");
    options.text("base-model", what.base_model, "the model an adapter is for, when it is not where the adapter says");
  }
};

int run_convert(const std::vector<std::string>& words) {
  Convert c;
  c.options.parse(words);
  if (!c.output) throw UserError("convert needs --output DIR");
  if (c.tied && c.untied) throw UserError("--tied and --untied exclude each other");
  c.what.output = *c.output;
  if (c.tied || c.untied) c.what.tied = c.tied;
  if (c.shard) c.what.max_shard_bytes = parse_size(*c.shard, "--max-shard-size");
  convert(c.what);
  print(*c.output + "\n");
  return 0;
}

}  // namespace

Command info_command() {
  return {"info", "what a model or adapter directory is", [] { return Info().options.page(); }, run_info};
}
Command convert_command() {
  return {"convert", "the same model or adapter in another form", [] { return Convert().options.page(); }, run_convert};
}

}  // namespace dml
