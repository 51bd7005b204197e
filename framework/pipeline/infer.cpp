#include "pipeline/infer.h"

#include <algorithm>
#include <numeric>

#include "assembly/job.h"
#include "assembly/model_location.h"
#include "assembly/vocabulary.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "core/stop_text.h"
#include "dist/comm.h"

namespace dml {
namespace {

constexpr std::size_t kTogether = 8;     // answers at a time; the next prompt waits for a free slot
constexpr std::int64_t kKept = 1 << 14;  // tokens of a conversation

}  // namespace

Assistant::Assistant(const Recipe* recipe, const InferOptions& options) : options_(options) {
  const AnsweringModel which = answering_model(recipe, options.base_model, options.adapters);
  const auto& [section, adapters, generation_directory] = which;
  if (!section.base_model.empty()) require_directory(model_directory(section.base_model));

  auto tokenizer = open_tokenizer(section);
  base_ = open_base_model(section, recipe && !options.base_model ? recipe->adapter : AdapterSection{});
  fit_vocabulary(base_, adapters);
  if (!base_.files) throw UserError("there are no weights to generate with: base_model is not set");
  model_ = make_inference_model(base_, section.frozen_storage, adapters);
  generator_ = std::make_unique<Generator>(*model_);

  format_ = std::make_unique<AnswerFormat>(recipe, which, base_, std::move(tokenizer), options_.raw);
  for (Token id : format_->stop_tokens()) options_.generation.stop_tokens.push_back(id);
  options_.generation.context = base_.spec.max_positions;
  if (options_.constraint)
    options_.generation.constraint = format_->constraint(options_.constraint, format_->continues());
  description_ = fmt::format("{}{}, {}", base_.directory,
                             adapters.empty() ? "" : fmt::format(" with {}", fmt::join(adapters, " and ")),
                             format_->description());
  description_ += generation_precision_text();
}

Assistant::~Assistant() = default;

Answer Assistant::answer(const std::vector<Token>& prompt, const std::function<bool(const std::string&)>& on_text,
                         std::size_t attempt) {
  return std::move(run({&prompt, 1}, on_text, attempt)[0]);
}

std::vector<Answer> Assistant::answers(std::span<const std::vector<Token>> prompts, std::size_t first,
                                       const OnAnswer& on_answer) {
  return run(prompts, {}, first, on_answer);
}

// Checks that memory holds the key-value caches of the longest texts and the rotary tables, before it is allocated.
void Assistant::require_memory(std::span<const std::vector<Token>> prompts) const {
  const ModelSpec& spec = model_->spec;
  const GenerationOptions& o = options_.generation;
  std::vector<std::int64_t> lengths;
  for (const auto& prompt : prompts) lengths.push_back(std::ssize(prompt) + o.longest_answer(prompt.size()));
  std::ranges::sort(lengths, std::greater<>());
  const std::int64_t longest = lengths.empty() ? 0 : lengths[0];
  lengths.resize(std::min(lengths.size(), kTogether));
  const std::int64_t tokens = o.beams > 1 ? o.beams * longest : std::reduce(lengths.begin(), lengths.end());
  const double need = static_cast<double>(tokens) * static_cast<double>(KvCache::bytes_per_token(
                                                        spec.layers, spec.kv_heads, spec.head_dim, o.cache)) +
                      static_cast<double>(longest) * static_cast<double>(spec.head_dim) * sizeof(float);
  if (std::size_t room = available_memory(); room > 0 && need > static_cast<double>(room))
    throw UserError(
        "the key-value cache of {} tokens needs {:.1f} GB, {:.1f} GB are available; use a smaller --max-new-tokens, or "
        "--kv-cache int8",
        tokens, need / 1e9, static_cast<double>(room) / 1e9);
}

void Assistant::keep_cache() {
  const ModelSpec& spec = model_->spec;
  const std::int64_t bytes =
      KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, options_.generation.cache);
  std::int64_t tokens = std::min(spec.max_positions, kKept);
  if (const std::size_t room = available_memory(); room > 0)
    tokens = std::min(tokens, static_cast<std::int64_t>(room / 4) / bytes);
  if (tokens >= KvPool::kTokens && options_.generation.beams == 1) generator_->keep(tokens, options_.generation.cache);
}

// Warns where the context is shorter than the requested length, or has cut an answer.
void Assistant::report_limit(std::span<const std::vector<Token>> prompts, std::span<const Answer> answers) {
  const GenerationOptions& o = options_.generation;
  const bool cut =
      o.constraint && std::ranges::any_of(answers, [](const Answer& a) { return a.reason == StopReason::length; });
  if (cut && !said_cut_) {
    said_cut_ = true;
    log_warning(
        "An answer was cut off before it was complete, so it does not fit the constraint; use a larger "
        "--max-new-tokens");
  }
  for (std::size_t i = 0; i < prompts.size() && !said_limit_; ++i) {
    const std::int64_t longest = o.longest_answer(prompts[i].size());
    const bool at_limit = i < answers.size() && answers[i].reason == StopReason::length;
    if (longest == o.max_new_tokens || !(at_limit || options_.long_answers)) continue;
    said_limit_ = true;
    log_warning("The context is {} tokens; generation is limited to {}", o.context, longest);
  }
}

std::vector<Answer> Assistant::run(std::span<const std::vector<Token>> prompts,
                                   const std::function<bool(const std::string&)>& on_text, std::size_t first,
                                   const OnAnswer& on_answer) {
  require_memory(prompts);
  report_limit(prompts, {});
  GenerationOptions how = options_.generation;
  how.together = kTogether;
  how.first_number = first;
  struct Going {
    AnswerText decoder;
    StopText stop;
    std::string text;
  };
  std::vector<Going> going;
  for (const auto& prompt : prompts)
    going.push_back({format_->text(prompt, format_->continues()), StopText(options_.stops), ""});
  auto emit = [&](Going& g, const std::string& piece) {
    g.text += piece;
    return piece.empty() || !on_text || on_text(piece);
  };
  auto take = [&](std::size_t i, Token id) {
    Going& g = going[i];
    return emit(g, g.stop.next(g.decoder.next(id))) && !g.stop.stopped();
  };
  std::vector<Answer> answers(prompts.size());
  auto end = [&](std::size_t i, const Generated& result) {
    Going& g = going[i];
    if (!g.stop.stopped()) emit(g, g.stop.next(g.decoder.finish()));
    emit(g, g.stop.finish());
    answers[i] = {std::move(g.text), result.tokens, result.logprobs, result.reason};
    if (on_answer) on_answer(i, answers[i]);
  };
  try {
    generator_->run(prompts, how, take, end);
  } catch (const Error& e) {
    if (e.code() == ExitCode::diverged) base_.examine(*make_self_comm());  // names a damaged tensor, if there is one
    throw;
  }
  report_limit(prompts, answers);
  return answers;
}

Json Assistant::logprobs(const Answer& answer) const {
  Json list = Json::array();
  for (std::size_t i = 0; i < answer.tokens.size(); ++i)
    list.push_back({{"token", format_->tokenizer().piece(answer.tokens[i])},
                    {"id", answer.tokens[i]},
                    {"logprob", answer.logprobs[i]}});
  return list;
}

}  // namespace dml
