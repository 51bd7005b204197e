#include "assembly/companions.h"

#include <algorithm>
#include <filesystem>

#include "assembly/job.h"
#include "assembly/model_location.h"
#include "assembly/prompt_format.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/model_config.h"
#include "checkpoint/quantization_config.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/model_file_names.h"
#include "prompt/preference.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr JsonLimits kSmall{.bytes = 1 << 20};

// The sampling settings of the recipe.
void set_sampling(Json& generation, const GenerationSection& s) {
  auto set = [&](const char* key, const auto& value) {
    if (value) generation[key] = *value;
  };
  set("do_sample", s.generation_do_sample);
  set("temperature", s.generation_temperature);
  set("top_k", s.generation_top_k);
  set("top_p", s.generation_top_p);
  set("min_p", s.generation_min_p);
  set("repetition_penalty", s.generation_repetition_penalty);
}

Json generation_of(const std::string& base_directory) {
  const std::string path = base_directory + "/generation_config.json";
  if (base_directory.empty() || !file_exists(path)) return Json::object();
  Json generation = read_json(path, kSmall);
  if (!generation.is_object()) throw UserError("{}: expected an object of settings", path);
  generation.erase("_from_model_config");  // otherwise ids of config.json would override these
  return generation;
}

// A padding token for a reward model, which reads the last other token: one that does not end texts.
std::optional<Token> reward_pad(const Tokenizer& tokenizer, const std::vector<Token>& ends) {
  for (const std::optional<Token>& id : {tokenizer.pad, tokenizer.unk})
    if (id && std::ranges::find(ends, *id) == ends.end()) return id;
  return {};
}

}  // namespace

std::vector<Token> stop_tokens(const TemplateSection& templates, const Tokenizer& tokenizer,
                               const std::vector<Token>& others) {
  std::vector<Token> out;
  auto add = [&](Token id) {
    if (std::ranges::find(out, id) == out.end()) out.push_back(id);
  };
  for (const std::string& eot : templates.eot_tokens.value_or(std::vector<std::string>{}))
    if (auto id = tokenizer.find(eot)) add(*id);
  if (tokenizer.eos) add(*tokenizer.eos);
  for (Token id : others) add(id);
  return out;
}

Companions::Companions(const RecipeFile& file, const Tokenizer& tokenizer, const BaseModel& base)
    : file_(file),
      tokenizer_(tokenizer),
      chat_template_(portable_chat_template(file.recipe, tokenizer)),
      keeps_template_(answering_dataset(&file.recipe).type.name != kPassthrough &&
                      file.recipe.model.task != ModelTask::process_reward),
      stop_tokens_(dml::stop_tokens(file.recipe.templates, tokenizer, base.spec.eos)),
      generation_(generation_of(model_directory(base.directory))),
      config_ids_(Json::object()),
      quantization_(base.quantized ? quantization_config_text(base.quantized->scheme(), base.dtype()) : "") {
  for (const std::string& eot : file.recipe.templates.eot_tokens.value_or(std::vector<std::string>{}))
    if (auto id = tokenizer.find(eot); id && id != tokenizer.eos && eot_token_.empty()) eot_token_ = eot;
  if (tokenizer.bos) generation_["bos_token_id"] = *tokenizer.bos;
  if (stop_tokens_.size() == 1) generation_["eos_token_id"] = stop_tokens_[0];
  else if (!stop_tokens_.empty()) generation_["eos_token_id"] = stop_tokens_;
  if (tokenizer.pad) generation_["pad_token_id"] = *tokenizer.pad;
  set_sampling(generation_, file.recipe.generation);

  const SpecialTokens& named = file.recipe.model.special_tokens;
  auto set = [&](const char* key, bool given, const std::optional<Token>& id) {
    if (given && id) config_ids_[key] = *id;
  };
  set("bos_token_id", named.bos_token.has_value(), tokenizer.bos);
  set("eos_token_id", named.eos_token.has_value(), tokenizer.eos);
  set("pad_token_id", named.pad_token.has_value(), tokenizer.pad);
  if (!file.recipe.preference.reward_model || named.pad_token) return;
  if (const auto pad = reward_pad(tokenizer, stop_tokens_)) config_ids_["pad_token_id"] = *pad;
  else
    log_warning(
        "transformers reads the reward at the last non-padding token. This tokenizer has no padding token apart from "
        "its end tokens, so transformers would skip the end of a text. Set special_tokens.pad_token");
}

namespace {

// Copies the image processor's files of a model with vision, unchanged.
void copy_processors(const std::string& from, const std::string& to) {
  for (const char* name : {"/processor_config.json", "/preprocessor_config.json"})
    if (!from.empty() && file_exists(from + name)) write_file(to + name, read_file(from + name));
}

}  // namespace

void Companions::write(const std::string& folder, const CardFacts& facts) const {
  const ModelSection& model = file_.recipe.model;
  TokenizerOverrides overrides = tokenizer_overrides(model);
  if (file_.recipe.preference.reward_model && !overrides.pad_token)
    if (const auto pad = reward_pad(tokenizer_, stop_tokens_)) overrides.pad_token = tokenizer_.piece(*pad);
  save_tokenizer_files(tokenizer_directory(model), overrides, folder);
  if (!chat_template_.empty()) save_chat_template(tokenizer_, chat_template_, eot_token_, folder);
  else if (!keeps_template_) remove_chat_template(folder);
  write_file(folder + "/generation_config.json", pretty_json(generation_));
  copy_processors(model_directory(file_.recipe.model.base_model), folder);
  const std::string config = folder + "/config.json";
  const bool adapter = holds_adapter(folder);
  if (!config_ids_.empty() && file_exists(config))
    write_file(config, pretty_json(rewrite_config(read_json(config, kSmall), config_ids_)));
  if (!file_exists(config) && !adapter) return;  // a checkpoint of ReLoRA, which is no model
  if (adapter && !quantization_.empty()) write_file(path_in(folder, kQuantizationConfig), quantization_);
  const std::string name = fs::path(real_path(file_.recipe.train.output_dir)).filename().string();
  write_file(folder + "/README.md", model_card(file_, adapter, name, facts));
}

std::size_t tokenizer_bytes(const ModelSection& model) {
  const std::string folder = tokenizer_directory(model);
  std::size_t bytes = 0;
  for (const std::string_view name : kTokenizerFiles)
    if (const fs::path file = fs::path(folder) / name; file_exists(file.string())) bytes += fs::file_size(file);
  return bytes;
}

void copy_companions(const std::string& from, const std::string& to) {
  save_tokenizer_files(from, {}, to);
  copy_processors(from, to);
  for (const char* name : {"generation_config.json", kQuantizationConfig})
    if (file_exists(path_in(from, name))) write_file(path_in(to, name), read_file(path_in(from, name)));
}

}  // namespace dml
