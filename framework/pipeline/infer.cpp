#include "pipeline/infer.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "data/example.h"
#include "data/prepare.h"
#include "data/records.h"
#include "pipeline/job.h"
#include "pipeline/memory_plan.h"
#include "pipeline/vocabulary.h"

namespace dml {
namespace {

constexpr std::size_t kTogether = 8;   // rows of a file that are answered at a time; the next one waits for a place …
constexpr std::size_t kWaiting = 256;  // … among so many

// The dataset whose template answers: the recipe's first, else plain chat.
DatasetEntry answering_dataset(const Recipe* recipe) {
  if (recipe && !recipe->data.datasets.empty() && !recipe->data.datasets[0].type.pre_tokenised())
    return recipe->data.datasets[0];
  DatasetEntry chat;
  chat.type.name = "chat_template";
  return chat;
}

// A plain prompt in every format's words, so that whichever strategy reads the row finds its field.
Json row_of_prompt(const std::string& prompt, const DatasetEntry& dataset) {
  Json row = Json::object();
  for (const char* field : {"prompt", "instruction", "question", "text", "article", "INSTRUCTION", "message_1"})
    row[field] = prompt;
  if (dataset.type.format) row[dataset.type.format->field_instruction] = prompt;
  if (dataset.field) row[*dataset.field] = prompt;
  auto name = [&](const char* property) {
    auto it = dataset.message_property_mappings.find(property);
    return it == dataset.message_property_mappings.end() ? std::string(property) : it->second;
  };
  Json message = Json::object();
  message[name("role")] = "user";
  message[name("content")] = prompt;
  row[dataset.field_messages] = Json::array({message});
  row["conversations"] = Json::array({Json{{"from", "human"}, {"value", prompt}}});
  return row;
}

}  // namespace

GenerationOptions generation_defaults(const GenerationSection& s) {
  GenerationOptions o;
  o.max_new_tokens = s.generation_max_new_tokens;
  o.sampling.greedy = !s.generation_do_sample;
  o.sampling.temperature = s.generation_temperature;
  o.sampling.top_k = s.generation_top_k.value_or(0);
  o.sampling.top_p = s.generation_top_p.value_or(1);
  o.sampling.min_p = s.generation_min_p.value_or(0);
  o.sampling.repetition_penalty = s.generation_repetition_penalty;
  return o;
}

Assistant::Assistant(const Recipe* recipe, const InferOptions& options)
    : options_(options), dataset_(answering_dataset(recipe)) {
  ModelSection section = recipe ? recipe->model : ModelSection{};
  std::vector<std::string> adapters = options.adapters;
  const bool alone = adapters == std::vector<std::string>{"none"};
  if (options.base_model) {
    section = ModelSection{};
    section.base_model = *options.base_model;
  } else if (recipe->adapter.makes_model()) {
    // A model trained in full, or by merging adapters, answers itself.
    if (!adapters.empty() && !alone)
      throw UserError("--adapter: this recipe trains the whole model; name its base with --base-model");
    if (file_exists(recipe->train.output_dir + "/config.json")) {
      section = ModelSection{};
      section.base_model = recipe->train.output_dir;
    } else if (section.base_model.empty()) {
      throw UserError("{}: no trained model there yet; run dml train first", recipe->train.output_dir);
    }
  } else if (adapters.empty()) {
    if (file_exists(recipe->train.output_dir + "/adapter_config.json")) adapters = {recipe->train.output_dir};
    else if (recipe->adapter.lora_model_dir) adapters = {*recipe->adapter.lora_model_dir};
    else
      throw UserError("{}: no adapter there yet; run dml train first, or ask the base with --adapter none",
                      recipe->train.output_dir);
  }
  if (alone) adapters.clear();
  if (!section.base_model.empty()) require_directory(section.base_model);

  tokenizer_ = open_tokenizer(section);
  base_ = open_base_model(section, recipe && !options.base_model ? recipe->adapter : AdapterSection{});
  fit_vocabulary(base_, adapters);
  if (!base_.files) throw UserError("there are no weights to answer with: base_model is not set");
  model_ = make_inference_model(base_, section.frozen_storage, adapters);
  generator_ = std::make_unique<Generator>(*model_);

  bool chat = dataset_.type.name == "chat_template";
  bool template_known = !tokenizer_->chat_template.empty() || (recipe && recipe->templates.chat_template) ||
                        dataset_.chat_template || dataset_.chat_template_jinja ||
                        (recipe && recipe->templates.chat_template_jinja);
  if (!options_.raw && (!chat || template_known)) {
    DataSection data = recipe ? recipe->data : DataSection{};
    TemplateSection templates = recipe ? recipe->templates : TemplateSection{};
    PromptContext context = prompt_context(data, templates, dataset_, *tokenizer_);
    strategy_ = make_prompt_strategy(context);
    for (const std::string& eot : context.eot_tokens)
      if (auto id = tokenizer_->find(eot)) options_.generation.stop_tokens.push_back(*id);
  }
  if (tokenizer_->eos) options_.generation.stop_tokens.push_back(*tokenizer_->eos);
  options_.generation.stop_tokens.insert(options_.generation.stop_tokens.end(), base_.spec.eos.begin(),
                                         base_.spec.eos.end());
  description_ = fmt::format("{}{}, {}", base_.directory,
                             adapters.empty() ? "" : fmt::format(" with {}", fmt::join(adapters, " and ")),
                             strategy_ ? strategy_->description() : "prompts as they are");
}

Assistant::~Assistant() = default;

std::vector<Token> Assistant::prompt_ids(const Json& row) const {
  std::vector<Token> ids;
  if (!strategy_) {
    std::string text = json_string(row, "prompt", json_string(row, "text", "", "row"), "row");
    ids = tokenizer_->encode(text, {.add_special = true}).ids;
    if (tokenizer_->adds_eos && !ids.empty() && tokenizer_->eos && ids.back() == *tokenizer_->eos) ids.pop_back();
  } else {
    bool plain = row.contains("prompt") && row["prompt"].is_string() && !row.contains("messages");
    Json asked = plain ? row_of_prompt(row["prompt"].get<std::string>(), dataset_) : row;
    if (plain) asked.update(row);
    ids = assemble(strategy_->prompt(asked), *tokenizer_).ids;
  }
  for (Token id : ids)
    if (id >= base_.spec.vocab)
      throw UserError("token '{}' is number {}, the model's embedding has {} rows", tokenizer_->piece(id), id,
                      base_.spec.vocab);
  if (ids.empty()) {
    if (!tokenizer_->bos) throw UserError("the prompt is empty");
    ids.push_back(*tokenizer_->bos);
  }
  return ids;
}

Answer Assistant::answer(const std::vector<Token>& prompt, const std::function<bool(const std::string&)>& on_text) {
  return std::move(run({&prompt, 1}, on_text)[0]);
}

std::vector<Answer> Assistant::answers(std::span<const std::vector<Token>> prompts, std::size_t first) {
  return run(prompts, {}, first);
}

// Keys and values of the longest texts that may be there at a time, and the rotary tables, before memory is taken for them.
void Assistant::require_memory(std::span<const std::vector<Token>> prompts) const {
  const ModelSpec& spec = model_->spec;
  const GenerationOptions& o = options_.generation;
  std::vector<std::int64_t> lengths;
  for (const auto& prompt : prompts) lengths.push_back(std::ssize(prompt) + o.max_new_tokens);
  std::ranges::sort(lengths, std::greater<>());
  const std::int64_t longest = lengths.empty() ? 0 : lengths[0];
  lengths.resize(std::min(lengths.size(), kTogether));
  const std::int64_t tokens = o.beams > 1 ? o.beams * longest : std::reduce(lengths.begin(), lengths.end());
  const double need = static_cast<double>(tokens) * static_cast<double>(KvCache::bytes_per_token(
                                                        spec.layers, spec.kv_heads, spec.head_dim, o.cache)) +
                      static_cast<double>(longest) * static_cast<double>(spec.head_dim) * sizeof(float);
  if (std::size_t room = available_memory(); room > 0 && need > static_cast<double>(room))
    throw UserError(
        "keys and values of {} tokens need {:.1f} GB, {:.1f} are available; smaller --max-new-tokens, or --kv-cache "
        "int8",
        tokens, need / 1e9, static_cast<double>(room) / 1e9);
}

void Assistant::warn_of_length(std::span<const std::vector<Token>> prompts) {
  const std::int64_t room = model_->spec.max_positions - options_.generation.max_new_tokens;
  if (warned_ || std::ranges::all_of(prompts, [&](auto& prompt) { return std::ssize(prompt) <= room; })) return;
  warned_ = true;
  log_warning(
      "prompt and --max-new-tokens together go beyond the {} positions of this model; what comes behind them may "
      "make little sense",
      model_->spec.max_positions);
}

std::vector<Answer> Assistant::run(std::span<const std::vector<Token>> prompts,
                                   const std::function<bool(const std::string&)>& on_text, std::size_t first) {
  require_memory(prompts);
  warn_of_length(prompts);
  GenerationOptions how = options_.generation;
  how.together = kTogether;
  how.first_number = first;
  struct Going {
    std::unique_ptr<StreamDecoder> decoder;
    StopText stop;
    std::string text;
  };
  std::vector<Going> going;
  for (const auto& prompt : prompts) {
    // The decoder has seen the prompt: whether a space stands in front of the first word depends on it.
    going.push_back({tokenizer_->stream(), StopText(options_.stops), ""});
    for (Token id : prompt) going.back().decoder->next(id);
  }
  auto emit = [&](Going& g, const std::string& piece) {
    g.text += piece;
    return piece.empty() || !on_text || on_text(piece);
  };
  auto results = generator_->run(prompts, how, [&](std::size_t i, Token id) {
    Going& g = going[i];
    return emit(g, g.stop.next(g.decoder->next(id))) && !g.stop.stopped();
  });
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Going& g = going[i];
    if (!g.stop.stopped()) emit(g, g.stop.next(g.decoder->finish()));
    emit(g, g.stop.finish());
    answers.push_back(
        {std::move(g.text), std::move(results[i].tokens), std::move(results[i].logprobs), results[i].reason});
  }
  return answers;
}

Json Assistant::logprobs(const Answer& answer) const {
  Json list = Json::array();
  for (std::size_t i = 0; i < answer.tokens.size(); ++i)
    list.push_back(
        {{"token", tokenizer_->piece(answer.tokens[i])}, {"id", answer.tokens[i]}, {"logprob", answer.logprobs[i]}});
  return list;
}

std::string StopText::next(const std::string& piece) {
  if (stopped_) return "";
  held_ += piece;
  std::size_t first = held_.size(), keep = 0;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  stopped_ = first < held_.size();
  if (!stopped_)
    for (const std::string& stop : stops_)
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
        if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  std::string certain = held_.substr(0, first - keep);
  held_.erase(0, certain.size());
  return certain;
}

void answer_file(Assistant& assistant, const std::string& input, const std::string& output, bool logprobs) {
  std::string text = read_file(input);
  FileWriter out(output);
  std::vector<Json> rows;
  std::vector<std::vector<Token>> prompts;
  std::size_t answered = 0;
  auto flush = [&] {
    auto answers = assistant.answers(prompts, answered);
    answered += rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i]["output"] = answers[i].text;
      if (logprobs) rows[i]["logprobs"] = assistant.logprobs(answers[i]);
      out.write(dump(rows[i]) + "\n");
    }
    rows.clear();
    prompts.clear();
  };
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string place = fmt::format("{}:{}", input, line_number);
    Json row = parse_json(line, place);
    if (!row.is_object()) throw UserError("{}: a row must be an object like {{\"prompt\": \"…\"}}", place);
    try {
      prompts.push_back(assistant.prompt_ids(row));
    } catch (const UserError& e) {
      throw UserError("{}: {}", place, e.what());
    }
    rows.push_back(std::move(row));
    if (rows.size() == kWaiting) flush();
  }
  flush();
  out.commit();
}

}  // namespace dml
