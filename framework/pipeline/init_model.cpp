#include "pipeline/init_model.h"

#include <algorithm>
#include <filesystem>

#include "assembly/base_model.h"
#include "assembly/model_location.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/bitsandbytes.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_files.h"
#include "core/error.h"
#include "core/files.h"
#include "data/report.h"
#include "hub/cache.h"
#include "prompt/chat_formats.h"
#include "train/progress.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

// Built-in templates in the order in which they are tried, each with the markers that a tokenizer for it knows.
struct Markers {
  const char* name;
  std::vector<std::string> tokens;
};
const std::vector<Markers>& template_markers() {
  static const std::vector<Markers> all{{"phi_4", {"<|im_start|>", "<|im_sep|>", "<|im_end|>"}},
                                        {"chatml", {"<|im_start|>", "<|im_end|>"}},
                                        {"llama3", {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
                                        {"gemma3", {"<start_of_turn>", "<end_of_turn>"}},
                                        {"phi_3", {"<|user|>", "<|assistant|>", "<|end|>"}},
                                        {"cohere", {"<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"}},
                                        {"exaone", {"[|assistant|]", "[|endofturn|]"}},
                                        {"deepseek_v2", {"<｜User｜>", "<｜Assistant｜>"}},
                                        {"mistral_v2v3", {"[INST]", "[/INST]"}},
                                        {"openchat", {"<|end_of_turn|>"}},
                                        {"alpaca", {"### Instruction:", "### Response:"}}};
  return all;
}

// `directory` is where the files of `name` lie.
void check_place(const std::string& name, const std::string& directory) {
  std::error_code error;
  if (!fs::exists(directory, error))
    throw UserError(
        "{}: no such directory; MODEL is a directory with config.json, *.safetensors and a tokenizer, or with a "
        "tokenizer alone, for a model from scratch{}",
        name, missing_advice(HubKind::model, name));
  if (!fs::is_directory(directory, error))
    throw UserError("{}: is a file; MODEL is a directory or a GGUF file, and DATA comes second: dml init MODEL DATA",
                    name);
  if (holds_adapter(directory) && !file_exists(directory + "/config.json"))
    throw UserError("{}: is an adapter; give its base model, and in the recipe lora_model_dir: {} to train it further",
                    name, name);
}

std::string token_text(const Tokenizer& t, std::optional<Token> id) { return id ? t.piece(*id) : "none"; }

void look_at_weights(ModelFacts& m) {
  ModelSection section;
  section.base_model = m.name;
  BaseModel base = open_base_files(section);
  m.spec = base.spec;
  m.bytes = base.files->bytes();
  m.dtype = std::string(safetensors_name(base.dtype()));
  m.storage = storage_of(base);
  if (is_bitsandbytes_config(base.config, m.directory + "/config.json"))
    m.dtype = "NF4 of bitsandbytes", m.quantized = true;
  const auto& tensors = base.files->tensors();
  if (auto t = std::ranges::find_if(tensors, &TensorView::quantized); t != tensors.end())
    m.dtype = std::string(safetensors_name(t->dtype)), m.quantized = true;
  m.lines.push_back(fmt::format("model      {}: {}, {} parameters, {}, context length {}{}", m.name, m.spec.model_type,
                                count_text(static_cast<double>(m.spec.parameters())), m.dtype,
                                grouped(m.spec.max_positions), m.spec.tied ? ", head tied to the embedding" : ""));
}

}  // namespace

ModelFacts examine_model(const std::string& name) {
  ModelFacts m;
  m.name = name;
  m.directory = model_directory(name);
  const std::string& directory = m.directory;
  check_place(name, directory);
  m.scratch = !file_exists(directory + "/config.json");
  m.tokenizer = load_tokenizer(directory);
  if (m.scratch) {
    if (file_exists(directory + "/model.safetensors")) throw UserError("{}: has weights but no config.json", name);
    m.lines.push_back(fmt::format("model      from scratch, with the tokenizer of {}", name));
  } else {
    look_at_weights(m);
  }
  const Tokenizer& t = *m.tokenizer;
  m.lines.push_back(fmt::format("tokenizer  {} tokens, BOS {}, EOS {}, {}", grouped(t.size()),
                                t.adds_bos ? token_text(t, t.bos) : "none", token_text(t, t.eos),
                                t.chat_template.empty() ? "no chat template" : "with a chat template"));
  return m;
}

ChatChoice choose_chat(const ModelFacts& model, bool full_training) {
  const Tokenizer& t = *model.tokenizer;
  const std::string eos = t.eos ? t.piece(*t.eos) : "";
  auto known = [&](const std::string& token) { return t.find(token).has_value(); };
  ChatChoice out;
  if (!t.chat_template.empty()) {
    out.chat_template = "tokenizer_default";
    out.reason = "the model's own";
    for (const ChatFormat& f : chat_formats())
      if (!f.terminator.empty() && f.terminator != eos && known(f.terminator) &&
          t.chat_template.find(f.terminator) != std::string::npos &&
          std::ranges::find(out.eot_tokens, f.terminator) == out.eot_tokens.end())
        out.eot_tokens.push_back(f.terminator);
    return out;
  }
  auto take = [&](const std::string& name, const char* reason) {
    out.chat_template = name;
    out.reason = reason;
    const ChatFormat& f = *find_chat_format(name);
    if (!f.terminator.empty() && f.terminator != eos) out.eot_tokens = {f.terminator};
    if (!t.adds_bos || f.source.find("bos_token") != f.source.npos) return;
    out.chat_template = "jinja";
    out.chat_template_jinja = "{{- bos_token -}}\n" + f.source;
    out.reason = fmt::format("{} after BOS; {}", name, reason);
  };
  for (const Markers& m : template_markers())
    if (std::ranges::all_of(m.tokens, known)) {
      take(m.name, "the tokenizer knows its markers");
      return out;
    }
  if (full_training) {
    take("chatml", "the model has none; its markers are added to the vocabulary");
    for (const char* marker : {"<|im_start|>", "<|im_end|>"})
      if (!known(marker)) out.new_tokens.emplace_back(marker);
  } else {
    take("alpaca", "the model has none; this one needs no new tokens, which an adapter would leave untrained");
  }
  return out;
}

std::string missing_eos(const Tokenizer& tokenizer) {
  for (const char* usual : {"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[EOS]"})
    if (tokenizer.find(usual)) return usual;
  return "</s>";
}

}  // namespace dml
