#include "assembly/sampled_completions.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory_limits.h"
#include "core/rounding.h"
#include "core/utf8.h"

namespace dml {
namespace {

constexpr std::size_t kSlots = 64;  // completions that are written at a time

RewardScale scale_of(AdvantageScale scale) {
  return scale == AdvantageScale::group   ? RewardScale::group
         : scale == AdvantageScale::batch ? RewardScale::batch
                                          : RewardScale::none;
}

SamplingOptions sampling_of(const TrlSettings& trl, std::uint64_t seed) {
  SamplingOptions out;
  out.temperature = trl.temperature;
  out.top_k = trl.top_k.value_or(0);
  out.top_p = trl.top_p.value_or(1);
  out.min_p = trl.min_p.value_or(0);
  out.repetition_penalty = trl.repetition_penalty;
  out.seed = seed;
  return out;
}

// Appends a completion in the form sent to other ranks: whether it ended, the number of tokens, the tokens.
void append(std::string& to, const Completion& c) {
  const std::int64_t head[2] = {c.ended, c.size()};
  to.append(reinterpret_cast<const char*>(head), sizeof head);
  to.append(reinterpret_cast<const char*>(c.text.data() + c.prompt),
            static_cast<std::size_t>(c.size()) * sizeof(Token));
}

void take(std::string_view& from, Completion& c) {
  std::int64_t head[2];
  DML_CHECK(from.size() >= sizeof head);
  std::memcpy(head, from.data(), sizeof head);
  from.remove_prefix(sizeof head);
  const std::size_t bytes = static_cast<std::size_t>(head[1]) * sizeof(Token);
  DML_CHECK(from.size() >= bytes);
  c.ended = head[0] != 0;
  c.text.resize(static_cast<std::size_t>(c.prompt + head[1]));
  std::memcpy(c.text.data() + c.prompt, from.data(), bytes);
  from.remove_prefix(bytes);
}

// The message of a request that failed because the model diverged.
std::string divergence_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    return e.what();
  }
}

// A model that diverges on one rank's prompts ends all ranks alike, so that they can finish a save together.
void stop_if_diverged(const std::string& mine, Comm& comm) {
  for (const std::string& problem : comm.all_gather(mine))
    if (!problem.empty()) throw Error(ExitCode::diverged, problem);
}

}  // namespace

SampledCompletions::SampledCompletions(const Recipe& recipe, const Prepared& prepared, const Schedule& schedule,
                                       const Tokenizer& tokenizer, const ModelSpec& spec,
                                       DistributionStrategy& strategy, int ranks)
    : recipe_(recipe),
      trl_(recipe.preference.trl),
      examples_(prepared.train()),
      schedule_(schedule),
      tokenizer_(tokenizer),
      prompts_(&recipe, tokenizer, spec),
      stops_(prompts_.stop_tokens(false)),
      strategy_(strategy),
      rewards_(recipe) {
  advantages_ = {trl_.num_generations, rewards_.weights(), scale_of(trl_.scale_rewards),
                 trl_.multi_objective_aggregation == RewardAggregation::normalize_then_sum};
  for (std::int64_t i = 0; i < examples_.size(); ++i) longest_prompt_ = std::max(longest_prompt_, examples_.length(i));
  rewards_.load();
  read_rows(prepared);
  const ScheduleOptions& o = schedule.options();
  const std::int64_t completions = o.steps_together * o.micro_batches_per_step * o.micro_batch_size;
  prompts_at_once_ = ceil_div(completions / trl_.num_generations, ranks);
}

// Problems are reported in the order of the files.
void SampledCompletions::read_rows(const Prepared& prepared) {
  std::vector<std::pair<std::int32_t, std::size_t>> order;  // stored example, place in rows_
  for (std::int64_t i = 0; i < examples_.size(); ++i)
    order.push_back({examples_.stored(i), static_cast<std::size_t>(i)});
  std::ranges::sort(order);
  std::vector<std::int32_t> stored;
  for (const auto& [example, place] : order) stored.push_back(example);
  std::vector<Json> records = prepared.records(stored);
  std::vector<EvalRow> rows;
  for (std::size_t i = 0; i < stored.size(); ++i) rows.push_back({std::move(records[i]), prepared.place(stored[i])});
  if (const auto problems = rewards_.problems_with(rows, tokenizer_); !problems.empty())
    throw UserError("{}", fmt::join(problems, "\n"));
  rows_.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows_[order[i].second] = std::move(rows[i]);
}

SampledCompletions::Plan SampledCompletions::plan_of(std::int64_t step) const {
  const Schedule::Step at = schedule_.step(step);
  Plan plan;
  for (std::int64_t s = step; s < at.last_together && schedule_.step(s).round == 0; ++s) {
    for (std::int64_t m = 0; m < schedule_.step(s).micro_batches; ++m) {
      const auto some = schedule_.examples(s, m);
      plan.examples.insert(plan.examples.end(), some.begin(), some.end());
    }
    plan.ends.push_back(plan.examples.size());
  }
  return plan;
}

// Fewer at a time where their caches would take more than a quarter of what is available; texts do not depend on it.
const EngineOptions& SampledCompletions::options(CausalLm& model) {
  if (options_) return *options_;
  EngineOptions& out = options_.emplace();
  out.fair = false;
  out.context = longest_prompt_ + trl_.max_completion_length;
  out.slots = std::min(kSlots, static_cast<std::size_t>(prompts_at_once_ * trl_.num_generations));
  const ModelSpec& spec = model.spec;
  const std::int64_t whole = KvPool::pages_of(out.context) * KvPool::kTokens;
  const auto each =
      static_cast<std::size_t>(whole * KvCache::bytes_per_token(spec.layers, spec.kv_heads, spec.head_dim, out.cache));
  const std::size_t room = available_memory() / 4;
  while (room > 0 && out.slots > 1 && out.slots * each > room) out.slots /= 2;
  out.cache_tokens = static_cast<std::int64_t>(out.slots) * whole;
  return out;
}

Completions::Memory SampledCompletions::memory(CausalLm& model) { return Engine::measure(model, options(model)); }

void SampledCompletions::generate(std::int64_t step, const Plan& plan, CausalLm& model, Comm& comm,
                                  std::vector<Completion>& out) {
  if (!engine_) engine_ = std::make_unique<Engine>(std::vector<EngineModel>{{&model}}, options(model));
  engine_->forget();
  const auto ranks = static_cast<std::size_t>(comm.size()), copies = static_cast<std::size_t>(trl_.num_generations);
  const auto rank_of = [&](std::size_t i) { return i / copies % ranks; };
  std::map<RequestId, std::size_t> number;
  out.resize(plan.examples.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto ids = examples_.ids(plan.examples[i]);
    out[i].text.assign(ids.begin(), ids.end());
    out[i].prompt = static_cast<std::int32_t>(ids.size());
    if (rank_of(i) != static_cast<std::size_t>(comm.rank())) continue;
    number[engine_->submit({.prompt = out[i].text,
                            .max_new_tokens = trl_.max_completion_length,
                            .sampling = sampling_of(trl_, static_cast<std::uint64_t>(recipe_.train.seed)),
                            .number = (static_cast<std::uint64_t>(step) << 32) + i,
                            .stop_tokens = stops_})] = i;
  }
  std::string problem;
  while (problem.empty() && engine_->busy())
    for (const EngineEvent& event : engine_->step()) {
      if (event.failure) {
        problem = divergence_of(event.failure);
        break;
      }
      Completion& c = out[number.at(event.id)];
      const bool stopped = event.kind == EngineEvent::Kind::end && event.reason == StopReason::token;
      if (stopped || event.kind == EngineEvent::Kind::token) c.text.push_back(event.choice.token);
      c.ended |= stopped;
    }
  stop_if_diverged(problem, comm);
  if (ranks == 1) return;
  std::string mine;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (rank_of(i) == static_cast<std::size_t>(comm.rank())) append(mine, out[i]);
  const auto all = comm.all_gather(mine);
  std::vector<std::string_view> rest(all.begin(), all.end());
  for (std::size_t i = 0; i < out.size(); ++i) take(rest[rank_of(i)], out[i]);
}

std::string SampledCompletions::text_of(const Completion& c) const {
  const auto border = c.text.begin() + c.prompt;
  return prompts_.answer({c.text.begin(), border}, {border, c.text.end() - (c.ended ? 1 : 0)}, false);
}

std::vector<std::vector<double>> SampledCompletions::score(const Plan& plan, const std::vector<Completion>& completions,
                                                           Comm& comm) {
  std::vector<RewardSources::Scored> scored;
  for (std::size_t i = 0; i < completions.size(); ++i)
    scored.push_back({completions[i], rows_[static_cast<std::size_t>(plan.examples[i])], text_of(completions[i])});
  return rewards_.of(scored, tokenizer_, comm);
}

std::vector<NamedValue> SampledCompletions::measured(const std::vector<std::vector<double>>& rewards,
                                                     const Advantages& advantages,
                                                     const std::vector<Completion>& completions) const {
  double sum = 0, least = static_cast<double>(trl_.max_completion_length), most = 0, cut = 0, ended = 0;
  for (const Completion& c : completions) {
    const auto size = static_cast<double>(c.size());
    sum += size, least = std::min(least, size), most = std::max(most, size);
    cut += !c.ended;
    if (c.ended) ended += size;
  }
  const auto n = static_cast<double>(completions.size());
  std::vector<NamedValue> out{{"reward", mean_and_deviation(advantages.rewards).mean},
                              {"reward_std", advantages.reward_std},
                              {"frac_reward_zero_std", advantages.zero_std}};
  for (std::size_t r = 0; r < rewards.size(); ++r) {
    const auto [mean, deviation] = mean_and_deviation(rewards[r]);
    out.push_back({fmt::format("rewards/{}/mean", rewards_.names()[r]), mean});
    out.push_back({fmt::format("rewards/{}/std", rewards_.names()[r]), deviation});
  }
  out.push_back({"completions/mean_length", sum / n});
  out.push_back({"completions/min_length", least});
  out.push_back({"completions/max_length", most});
  out.push_back({"completions/clipped_ratio", cut / n});
  if (cut < n) out.push_back({"completions/mean_terminated_length", ended / (n - cut)});
  return out;
}

void SampledCompletions::show(const Plan& plan, const std::vector<Completion>& completions,
                              const Advantages& advantages) const {
  if (!trl_.log_completions) return;
  const auto most = std::min(completions.size(), static_cast<std::size_t>(trl_.num_completions_to_print));
  for (std::size_t i = 0; i < most; ++i)
    log_info("{}: reward {:.3f}, advantage {:.3f}: {}", rows_[static_cast<std::size_t>(plan.examples[i])].place,
             advantages.rewards[i], advantages.values[i], escape_controls(text_of(completions[i])));
}

Completions::Sampled SampledCompletions::sample(std::int64_t step, CausalLm& model, Comm& comm) {
  const auto start = Clock::now();
  const Plan plan = plan_of(step);
  std::vector<Completion> completions;
  {
    const GatheredValues gathered(strategy_);
    generate(step, plan, model, comm, completions);
  }
  const double generating = seconds_since(start);
  const auto rewards = score(plan, completions, comm);
  const Advantages advantages = advantages_of(rewards, advantages_);
  if (comm.rank() == 0) show(plan, completions, advantages);

  Sampled out;
  out.values = measured(rewards, advantages, completions);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    completions[i].advantage = advantages.values[i];
    tokens += completions[i].size();
  }
  out.values.push_back({"time/generation", generating});
  out.values.push_back({"time/rewards", seconds_since(start) - generating});
  out.values.push_back({"generation/tok_s", static_cast<double>(tokens) / generating});
  std::size_t first = 0;
  for (const std::size_t end : plan.ends) {
    out.steps.emplace_back(std::make_move_iterator(completions.begin() + static_cast<std::ptrdiff_t>(first)),
                           std::make_move_iterator(completions.begin() + static_cast<std::ptrdiff_t>(end)));
    first = end;
  }
  return out;
}

}  // namespace dml
