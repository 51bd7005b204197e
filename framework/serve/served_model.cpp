#include "serve/served_model.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "assembly/job.h"
#include "assembly/model_location.h"
#include "assembly/vocabulary.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "pipeline/infer.h"
#include "tokenizer/same_tokens.h"

namespace dml {
namespace {

constexpr std::int64_t kReports = 32;

std::string name_of(std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  const std::string name = std::filesystem::path(directory).filename().string();
  return name.empty() || name == "." ? std::string("model") : name;
}

// Splits "NAME=DIR". A text that is itself the name of a directory is not split.
std::pair<std::string, std::string> name_and_directory(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == text.npos || file_exists(text)) return {name_of(text), text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// Without a recipe, the tokenizer, chat template and stop tokens are those that the adapters' folders hold, as in dml
// infer. All models of a server share them: warns of an adapter that has others than the first.
void use_tokenizer_of_adapters(const ServedOptions& options, AnsweringModel& which) {
  std::unique_ptr<Tokenizer> first;
  std::string owner;
  for (const std::string& text : options.adapters) {
    const std::string directory = name_and_directory(text).second;
    const AnsweringModel own = answering_model(nullptr, options.base_model, {directory});
    auto tokenizer = open_tokenizer(own.section);
    if (!first) {
      which.section = own.section;
      which.generation_directory = own.generation_directory;
      first = std::move(tokenizer);
      owner = directory;
    } else if (!has_same_tokens(*tokenizer, *first) || tokenizer->chat_template != first->chat_template) {
      log_warning(
          "{}: its tokenizer or chat template differs from that of {}, which all models of this server use; for the "
          "answers it was trained to give, start a server for it alone",
          directory, owner);
    }
  }
}

// The recipe with another chat template, which replaces the format of its data, too.
Recipe with_chat_template(const Recipe* recipe, const std::string& chat_template) {
  Recipe out = recipe ? *recipe : Recipe{};
  out.data.datasets.clear();
  out.data.test_datasets.clear();
  const bool file = file_exists(chat_template);
  out.templates.chat_template = file ? "jinja" : chat_template;
  out.templates.chat_template_jinja.reset();
  if (file) out.templates.chat_template_jinja = chat_template;
  return out;
}

}  // namespace

ServedModels::~ServedModels() = default;

ServedModels::ServedModels(const Recipe* recipe, const ServedOptions& options) {
  // The adapter that the recipe trained is the default model; the base is served as well.
  const bool own_result = recipe && !options.base_model && options.own_result;
  AnsweringModel which = answering_model(recipe, options.base_model,
                                         own_result ? std::vector<std::string>{} : std::vector<std::string>{"none"});
  if (!which.section.base_model.empty()) require_directory(model_directory(which.section.base_model));
  if (options.base_model) use_tokenizer_of_adapters(options, which);
  auto tokenizer = open_tokenizer(which.section);
  base_ = open_base_model(which.section, recipe && !options.base_model ? recipe->adapter : AdapterSection{});
  std::vector<std::pair<std::string, std::string>> adapters;
  for (const std::string& directory : which.adapters) adapters.push_back({name_of(directory), directory});
  for (const std::string& text : options.adapters) adapters.push_back(name_and_directory(text));
  if (!base_.files) throw UserError("there are no weights to serve: base_model is not set");

  const std::string base_name = name_of(base_.directory);
  weights_.push_back(make_inference_model(base_, which.section.frozen_storage));
  auto add = [&](const std::string& name, const std::string& parent, EngineModel model) {
    if (name.empty()) throw UserError("--adapter: the name before '=' is empty");
    if (find(name)) throw UserError("--adapter: two models would have the name '{}'; use NAME=DIR", name);
    list_.push_back({name, parent});
    models_.push_back(model);
  };
  BaseModel widest = base_;  // as wide as the widest model
  const std::size_t before_base = options.adapters_first ? adapters.size() : which.adapters.size();
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    if (i == before_base) add(base_name, "", weights_[0].get());
    std::optional<std::int32_t> number;
    weights_.push_back(adapted(which.section.frozen_storage, adapters[i].second, number));
    widest.spec.vocab = std::max(widest.spec.vocab, weights_.back()->spec.vocab);
    add(adapters[i].first, base_name, number ? EngineModel(weights_[0].get(), *number) : weights_.back().get());
    if (!number)
      log_info("{} changes weights of the base; its requests are not computed together with the others'",
               adapters[i].first);
  }
  if (!find(base_name)) add(base_name, "", weights_[0].get());

  const Recipe* texts = options.base_model ? nullptr : recipe;
  Recipe own;
  if (options.chat_template) {
    own = with_chat_template(texts, *options.chat_template);
    texts = &own;
  }
  format_ = std::make_unique<AnswerFormat>(texts, which, widest, std::move(tokenizer), false);
  GenerationOptions openai = generation_defaults(GenerationSection{});
  openai.sampling.temperature = 1;
  openai.max_new_tokens = 0;  // up to the end of the context
  defaults_ = generation_defaults(recipe, which, openai);
  plan(options);
  std::vector<std::string> names;
  for (const ServedModel& m : list_) names.push_back(m.name);
  description_ = fmt::format("{}; {}; {} requests at a time, context {}", fmt::join(names, ", "),
                             format_->description(), engine_.slots, engine_.context);
  description_ += generation_precision_text();
}

// The model of one adapter. `number`: its place in the base's model, unless it changes weights of the base. An adapter
// with tokens of its own brings its own rows of embedding and head, which no other model may see.
std::unique_ptr<CausalLm> ServedModels::adapted(std::optional<DType> storage, const std::string& adapter,
                                                std::optional<std::int32_t>& number) {
  BaseModel own = base_;
  fit_vocabulary(own, std::vector<std::string>{adapter});
  if (own.resized) return make_inference_model(own, storage, {adapter});
  return make_inference_model(base_, storage, {adapter}, *weights_[0], number);
}

// Reserves the key-value caches of all slots, each of a whole context, or of fewer tokens where memory is short.
void ServedModels::plan(const ServedOptions& options) {
  const ModelSpec& spec = base_.spec;
  engine_.slots = static_cast<std::size_t>(options.slots.value_or(ServedOptions::kUsualSlots));
  engine_.context = options.context.value_or(std::min(spec.max_positions, ServedOptions::kUsualContext));
  if (engine_.context > spec.max_positions)
    throw UserError("--context: {} is more than the {} positions of the model", engine_.context, spec.max_positions);
  engine_.cache = options.cache;
  engine_.reports = std::min(kReports, engine_.context);
  engine_.drafts = Engine::kUsualDrafts;
  engine_.cache_tokens = static_cast<std::int64_t>(engine_.slots) * KvPool::pages_of(engine_.context) * KvPool::kTokens;
  const std::int64_t bytes = KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, engine_.cache);
  const std::size_t room = available_memory();
  if (room == 0) return;
  std::size_t working = 0;
  std::set<CausalLm*> computing;
  for (const EngineModel& model : models_) computing.insert(model.base);
  for (CausalLm* model : computing) working += Engine::measure(*model, engine_).working;
  const std::int64_t left = static_cast<std::int64_t>(room / 10 * 9) - static_cast<std::int64_t>(working);
  const std::int64_t tokens = std::min(engine_.cache_tokens, std::max<std::int64_t>(0, left) / bytes);
  if (tokens < engine_.context)
    throw UserError(
        "one context of {} tokens needs {:.1f} GB for keys and values, {:.1f} GB are available; use a smaller "
        "--context, or --kv-cache int8",
        engine_.context, static_cast<double>(engine_.context * bytes) / 1e9,
        static_cast<double>(std::max<std::int64_t>(0, left)) / 1e9);
  if (tokens < engine_.cache_tokens) {
    engine_.cache_tokens = tokens;
    log_warning("The key-value cache holds {} tokens for all requests together; requests wait when it is full", tokens);
  }
}

std::optional<std::size_t> ServedModels::find(const std::string& name) const {
  for (std::size_t i = 0; i < list_.size(); ++i)
    if (name == list_[i].name || (!list_[i].parent.empty() && name == list_[i].parent + ":" + list_[i].name)) return i;
  return {};
}

}  // namespace dml
