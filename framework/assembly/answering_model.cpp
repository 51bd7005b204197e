#include "assembly/answering_model.h"

#include <algorithm>
#include <array>

#include "assembly/adapter_argument.h"
#include "assembly/model_location.h"
#include "assembly/trained_result.h"
#include "core/error.h"
#include "core/files.h"
#include "core/sampling_limits.h"

namespace dml {
namespace {

void take_generation_config(const std::string& directory, GenerationOptions& options) {
  const Json config = generation_config(directory);
  const std::string source = directory + "/generation_config.json";
  using Limits = SamplingLimits;
  SamplingOptions& s = options.sampling;
  auto number = [&](const char* key, double value, SamplingLimit limit) {
    const double x = json_number(config, key, value, source);
    if (!limit.contains(x)) throw UserError("{}: '{}' is {}, not from {} to {}", source, key, x, limit.low, limit.high);
    return x;
  };
  s.greedy = !json_bool(config, "do_sample", !s.greedy, source);
  s.temperature = number("temperature", s.temperature, Limits::kTemperature);
  s.top_k = static_cast<std::int64_t>(number("top_k", static_cast<double>(s.top_k), Limits::kTopK));
  s.top_p = number("top_p", s.top_p, Limits::kTopP);
  s.min_p = number("min_p", s.min_p, Limits::kMinP);
  s.repetition_penalty = number("repetition_penalty", s.repetition_penalty, Limits::kRepetitionPenalty);
}

// Sets what the section gives.
void take_section(const GenerationSection& s, GenerationOptions& options) {
  SamplingOptions& sampling = options.sampling;
  auto set = [](auto& option, const auto& value) {
    if (value) option = *value;
  };
  set(options.max_new_tokens, s.generation_max_new_tokens);
  if (s.generation_do_sample) sampling.greedy = !*s.generation_do_sample;
  set(sampling.temperature, s.generation_temperature);
  set(sampling.top_k, s.generation_top_k);
  set(sampling.top_p, s.generation_top_p);
  set(sampling.min_p, s.generation_min_p);
  set(sampling.repetition_penalty, s.generation_repetition_penalty);
}

}  // namespace

bool has_tokenizer(const std::string& directory) {
  return std::ranges::any_of(std::array{"tokenizer.json", "tokenizer.model", "vocab.json"},
                             [&](const char* name) { return file_exists(directory + "/" + name); });
}

Json generation_config(const std::string& directory) {
  const std::string path = directory + "/generation_config.json";
  if (directory.empty() || !file_exists(path)) return Json::object();
  Json config = read_json(path, {.bytes = 1 << 20});
  if (!config.is_object()) throw UserError("{}: expected an object of settings", path);
  return config;
}

std::vector<Token> end_tokens(const ModelSpec& spec, const std::string& generation_directory) {
  std::vector<Token> out = spec.eos;
  const Json config = generation_config(generation_directory);
  const auto eos = config.find("eos_token_id");
  if (eos == config.end()) return out;
  for (const Json& id : eos->is_array() ? *eos : Json::array({*eos}))
    if (id.is_number_integer() && id >= 0 && id < spec.vocab) out.push_back(id);
  return out;
}

GenerationOptions generation_defaults(const GenerationSection& section) {
  GenerationOptions out;
  out.max_new_tokens = kUsualNewTokens;
  out.sampling.temperature = kUsualTemperature;
  take_section(section, out);
  return out;
}

GenerationOptions generation_defaults(const Recipe* recipe, const AnsweringModel& model,
                                      std::optional<GenerationOptions> instead) {
  GenerationOptions out = instead.value_or(generation_defaults(GenerationSection{}));
  take_generation_config(model.generation_directory, out);
  if (recipe) take_section(recipe->generation, out);
  return out;
}

AnsweringModel answering_model(const Recipe* recipe, const std::optional<std::string>& base_model,
                               const std::vector<std::string>& adapters) {
  if (recipe && recipe->model.task != ModelTask::causal_lm)
    throw UserError("this recipe trains a reward model, which gives scores instead of text: dml score");
  AnsweringModel out{recipe ? recipe->model : ModelSection{}, adapters, ""};
  const bool alone = adapters == std::vector<std::string>{"none"};
  if (!alone && std::ranges::find(adapters, "none") != adapters.end())
    throw UserError("--adapter none is the base alone: give it without other adapters");
  if (base_model) {
    out.section = ModelSection{};
    out.section.base_model = *base_model;
  } else if (recipe->adapter.makes_model()) {
    // A model trained in full, or merged, needs no adapter.
    if (!adapters.empty() && !alone)
      throw UserError("--adapter: this recipe trains the whole model; name its base with --base-model");
    const bool base_alone = alone && !out.section.base_model.empty();
    if (const auto trained = base_alone ? std::nullopt : trained_model(*recipe)) out.section = *trained;
    else if (out.section.base_model.empty())
      throw UserError("{}: no trained model there yet; run dml train first", recipe->train.output_dir);
  } else if (adapters.empty()) {
    const auto trained = trained_adapter(*recipe);
    if (!trained)
      throw UserError("{}: no adapter there yet; run dml train first, or use the base alone with --adapter none",
                      recipe->train.output_dir);
    out.adapters = {*trained};
  }
  if (alone) out.adapters.clear();
  out.generation_directory = model_directory(out.section.base_model);
  if (!recipe && !out.adapters.empty()) {
    const std::string directory = AdapterArgument(out.adapters[0]).directory;
    if (has_tokenizer(directory)) out.section.tokenizer_config = directory;
    if (file_exists(directory + "/generation_config.json")) out.generation_directory = directory;
  }
  return out;
}

}  // namespace dml
