#include "assembly/reward_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "assembly/answering_model.h"
#include "assembly/job.h"
#include "assembly/model_head.h"
#include "assembly/model_location.h"
#include "assembly/prompt_format.h"
#include "assembly/vocabulary.h"
#include "checkpoint/adapter_io.h"
#include "checkpoint/model_config.h"
#include "checkpoint/quantization_config.h"
#include "core/error.h"
#include "core/interruption.h"
#include "data/example.h"
#include "data/prepare.h"
#include "prompt/prompt_only.h"

namespace dml {

struct RewardModelPlace {
  ModelSection model;
  AdapterSection quantization;        // how the base is quantized
  std::vector<std::string> adapters;  // the folder, if it holds an adapter
};

namespace {

constexpr std::int64_t kTogether = 4096;  // tokens of texts that share a pass

ModelTask reward_task(HeadKind head, const std::string& directory) {
  if (head == HeadKind::causal_lm)
    throw UserError("{}: is a language model, not a reward model; train one with reward_model: true", directory);
  return task_of(head);
}

// The folder of an adapter, with its base as the adapter names it.
RewardModelPlace adapter_place(const std::string& folder, const std::string& quantized_cache_path) {
  const AdapterConfig config = read_adapter_config_of(folder);
  RewardModelPlace out;
  out.model.base_model = base_of(config);
  if (out.model.base_model.empty()) throw UserError("{}: adapter_config.json names no base model; give one", folder);
  if (has_tokenizer(folder)) out.model.tokenizer_config = folder;
  out.model.task = reward_task(config.head, folder);
  out.adapters = {folder};
  const std::optional<DType> scheme = read_quantization_config(folder);
  out.quantization.load_in_4bit = scheme == DType::nf4;
  out.quantization.load_in_8bit = scheme == DType::int8;
  out.quantization.quantized_cache_path = quantized_cache_path;
  return out;
}

RewardModelPlace place_of(const std::string& directory, const std::string& quantized_cache_path = "") {
  const std::string folder = model_directory(directory);
  if (holds_adapter(folder)) return adapter_place(folder, quantized_cache_path);
  RewardModelPlace out;
  out.model.base_model = directory;
  out.model.task = reward_task(read_model_spec(folder).head, folder);
  return out;
}

RewardModelPlace place_in(const std::string& directory, const Recipe& recipe) {
  const std::string folder = model_directory(directory);
  if (!holds_adapter(folder)) return place_of(directory);
  RewardModelPlace out{recipe.model, recipe.adapter, {folder}};
  out.model.task = reward_task(read_adapter_config_of(folder).head, folder);
  return out;
}

// Documents of a pass, laid end to end.
struct Texts {
  std::vector<Token> tokens, labels;
  std::vector<std::int32_t> positions, starts{0};

  void add(std::span<const Token> text, std::span<const std::int64_t> labeled, Token label) {
    const std::size_t begin = tokens.size();
    tokens.insert(tokens.end(), text.begin(), text.end());
    labels.resize(tokens.size(), kIgnore);
    for (std::int64_t at : labeled) labels[begin + static_cast<std::size_t>(at)] = label;
    positions.resize(tokens.size());
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(begin), positions.end(), 0);
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  PackedBatch batch() const { return {tokens, labels, positions, starts}; }
};

}  // namespace

RewardModelFiles open_reward_model(const std::string& directory) {
  RewardModelPlace place = place_of(directory);
  RewardModelFiles out;
  out.tokenizer = open_tokenizer(place.model);
  out.base = open_base_files(place.model);
  check_stored_base(out.base, place.model, place.quantization);
  fit_vocabulary(out.base, place.adapters);
  out.adapters = std::move(place.adapters);
  return out;
}

RewardModel::RewardModel(const std::string& directory, const std::string& quantized_cache_path)
    : RewardModel(place_of(directory, quantized_cache_path)) {}

RewardModel::RewardModel(const std::string& directory, const Recipe& recipe)
    : RewardModel(place_in(directory, recipe)) {}

RewardModel::RewardModel(const RewardModelPlace& place)
    : base_(open_base_model(place.model, place.quantization)), tokenizer_(open_tokenizer(place.model)) {
  fit_vocabulary(base_, place.adapters);
  model_ = make_inference_model(base_, place.model.frozen_storage, place.adapters);
  const DatasetEntry chat = answering_dataset(nullptr);
  if (has_chat_template(nullptr, chat, *tokenizer_))
    template_ = make_prompt_strategy(answering_context(prompt_context({}, {}, chat, *tokenizer_)));
}

void RewardModel::check_length(std::span<const Token> text) const {
  if (text.empty()) throw UserError("a text without tokens has no reward");
  if (std::ssize(text) > context())
    throw UserError("the text has {} tokens, the reward model's context {}", text.size(), context());
}

void RewardModel::make_room(std::int64_t tokens, std::int64_t longest, std::int64_t labels, std::int64_t documents) {
  if (model_->length() < longest) model_->set_length(longest);
  const std::size_t bytes = model_->measure({tokens, labels, documents}, false);
  if (bytes > model_->reserved()) model_->reserve(bytes);
}

double RewardModel::score(std::span<const Token> text) {
  const std::vector<Token> one(text.begin(), text.end());
  return score(std::span(&one, 1)).front();
}

std::vector<double> RewardModel::score(std::span<const std::vector<Token>> texts) {
  DML_CHECK(!judges_steps());
  for (const auto& text : texts) check_length(text);
  std::vector<double> out;
  UnitHooks none;
  while (out.size() < texts.size()) {
    check_interruption();
    Texts together;
    std::int64_t longest = 0;
    for (std::size_t i = out.size(); i < texts.size(); ++i) {
      const std::int64_t size = std::ssize(texts[i]), last = size - 1;
      if (i > out.size() && std::ssize(together.tokens) + size > kTogether) break;
      together.add(texts[i], std::span(&last, 1), 0);
      longest = std::max(longest, size);
    }
    const std::int64_t documents = std::ssize(together.starts) - 1;
    make_room(std::ssize(together.tokens), longest, documents, documents);
    std::vector<float> rewards(static_cast<std::size_t>(documents));
    model_->evaluate(together.batch(), none, rewards);
    out.insert(out.end(), rewards.begin(), rewards.end());
  }
  return out;
}

// The loss at a step's end with label 1 is −log p(right).
std::vector<double> RewardModel::step_scores(std::span<const Token> text, std::span<const std::int64_t> ends) {
  DML_CHECK(judges_steps());
  check_length(text);
  Texts one;
  one.add(text, ends, 1);
  make_room(std::ssize(text), std::ssize(text), std::ssize(ends), 1);
  std::vector<float> losses(ends.size());
  UnitHooks none;
  model_->evaluate(one.batch(), none, losses);
  std::vector<double> out;
  for (float loss : losses) out.push_back(std::exp(-static_cast<double>(loss)));
  return out;
}

std::vector<Token> RewardModel::ids(const Json& messages) const {
  if (!template_)
    throw UserError("{}: has no chat template for a conversation; give prompt and answer as texts", base_.directory);
  const std::vector<Rendered> rendered = template_->render(Json{{"messages", messages}});
  if (rendered.empty()) throw UserError("the chat template renders the conversation as an empty text");
  return assemble(rendered.front(), *tokenizer_).ids;
}

std::vector<Token> RewardModel::ids(const std::string& prompt, const std::string& answer) const {
  if (template_)
    return ids(
        Json::array({Json{{"role", "user"}, {"content", prompt}}, Json{{"role", "assistant"}, {"content", answer}}}));
  Rendered text;
  Segment& segment = text.segments.emplace_back();
  segment.add_markup(prompt);
  segment.add_markup(answer);
  segment.add_special = segment.end_of_text = true;
  return assemble(text, *tokenizer_).ids;
}

}  // namespace dml
