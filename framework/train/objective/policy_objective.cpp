#include "train/objective/policy_objective.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "train/passes_in_step.h"
#include "train/scored_rows.h"

namespace dml {
namespace {

// In the order of terms_.
enum : std::size_t { kEntropy, kClipLow, kClipHigh, kClip, kKl };

// Divides logits by a temperature during its lifetime.
class Tempered {
 public:
  Tempered(CausalLm& model, double temperature) : head_(model.head), scale_(head_.scale) {
    head_.scale = static_cast<float>(head_.scale / temperature);
  }
  ~Tempered() { head_.scale = scale_; }
  Tempered(const Tempered&) = delete;
  Tempered& operator=(const Tempered&) = delete;

 private:
  LossHead& head_;
  float scale_;
};

}  // namespace

PolicyObjective::PolicyObjective(PolicyObjectiveSettings settings, const Schedule& schedule,
                                 std::unique_ptr<Completions> completions, std::unique_ptr<CausalLm> reference)
    : settings_(std::move(settings)),
      schedule_(schedule),
      source_(std::move(completions)),
      reference_(std::move(reference)),
      terms_{{"entropy"}, {"clip_ratio/low_mean"}, {"clip_ratio/high_mean"}, {"clip_ratio/region_mean"}} {
  DML_CHECK((settings_.loss.beta > 0) == (reference_ || settings_.swap_reference));
  if (has_reference()) terms_.push_back({"kl"});
  if (!reference_) return;
  CausalLm::Shape shape{schedule.longest(), schedule.longest(), schedule.most_documents()};
  shape.shared = true;
  reference_->set_length(schedule.longest());
  reference_->reserve(reference_->measure(shape, false));
}

void PolicyObjective::begin(const GlobalBatch& global) {
  const Schedule::Step at = schedule_.step(global.step);
  step_ = global.step;
  values_.clear();
  if (sampled_.first != at.first_together) {
    Completions::Sampled sampled = source_->sample(at.first_together, global.model, global.comm);
    sampled_ = {at.first_together, std::move(sampled.steps)};
    values_ = std::move(sampled.values);
    if (at.last_together - at.first_together > 1)
      find_logps(global, at.first_together, sampled_.steps, &Completion::old_logps);
  }
  const auto place = static_cast<std::size_t>(at.number - schedule_.step(at.first_together).number);
  DML_CHECK(place < sampled_.steps.size());
  now_ = sampled_.steps[place];
  if (!settings_.swap_reference) return;
  settings_.swap_reference();
  find_logps(global, global.step, std::span(sampled_.steps).subspan(place, 1), &Completion::reference_logps);
  settings_.swap_reference();
}

PackedBatch PolicyObjective::packed(std::span<const Completion> completions, std::int64_t first) {
  tokens_.clear(), labels_.clear(), positions_.clear();
  starts_.assign(1, 0);
  shared_.clear();
  for (const Completion& c : completions) {
    const std::size_t begin = tokens_.size(), size = c.text.size(), before = shared_.size();
    const auto prompt = std::span(c.text).first(static_cast<std::size_t>(c.prompt));
    const bool same =
        before > 0 &&
        std::ranges::equal(prompt, std::span(completions[before - 1].text)
                                       .first(std::min(prompt.size(), completions[before - 1].text.size())));
    shared_.push_back(same && settings_.share_prompts ? c.prompt : 0);
    tokens_.insert(tokens_.end(), c.text.begin(), c.text.end());
    labels_.resize(begin + size, kIgnore);
    if (c.ended || !settings_.mask_truncated)
      std::copy(c.text.begin() + c.prompt, c.text.end(),
                labels_.begin() + static_cast<std::ptrdiff_t>(begin) + c.prompt - 1);
    positions_.resize(begin + size);
    std::iota(positions_.begin() + static_cast<std::ptrdiff_t>(begin), positions_.end(), 0);
    starts_.push_back(static_cast<std::int32_t>(tokens_.size()));
  }
  return {.tokens = tokens_,
          .labels = labels_,
          .positions = positions_,
          .starts = starts_,
          .first_group = first,
          .shared = shared_};
}

PackedBatch PolicyObjective::completed(const PackedBatch& loaded) {
  const auto first = static_cast<std::size_t>(loaded.first_group), count = static_cast<std::size_t>(loaded.documents());
  DML_CHECK(first + count <= now_.size());
  return packed(now_.subspan(first, count), loaded.first_group);
}

// Each rank scores a share of the micro-batches; all ranks receive all scores.
void PolicyObjective::find_logps(const GlobalBatch& global, std::int64_t first_step,
                                 std::span<std::vector<Completion>> steps, std::vector<double> Completion::*to) {
  std::vector<std::span<Completion>> parts;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::int64_t step = first_step + static_cast<std::int64_t>(s);
    std::span<Completion> rest = steps[s];
    for (std::int64_t m = 0; m < schedule_.step(step).micro_batches; ++m) {
      parts.push_back(rest.first(schedule_.examples(step, m).size()));
      rest = rest.subspan(parts.back().size());
    }
  }
  const Tempered tempered(global.model, settings_.temperature);
  const auto ranks = static_cast<std::size_t>(global.comm.size());
  std::string mine;
  passes_in_step(global.comm, std::ssize(parts), [&](std::int64_t m, bool own) {
    const PackedBatch batch = packed(parts[static_cast<std::size_t>(m)], 0);
    losses_.resize(static_cast<std::size_t>(batch.trained()));
    global.model.evaluate(batch, global.hooks, losses_);
    if (own) mine.append(reinterpret_cast<const char*>(losses_.data()), losses_.size() * sizeof(float));
  });
  const auto all = global.comm.all_gather(mine);
  std::vector<std::string_view> rest(all.begin(), all.end());
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (Completion& c : parts[i]) {
      if (!c.ended && settings_.mask_truncated) continue;
      std::string_view& from = rest[i % ranks];
      losses_.resize(static_cast<std::size_t>(c.size()));
      const std::size_t bytes = losses_.size() * sizeof(float);
      DML_CHECK(from.size() >= bytes);
      std::memcpy(losses_.data(), from.data(), bytes);
      from.remove_prefix(bytes);
      std::vector<double>& logps = c.*to;
      logps.assign(losses_.size(), 0);
      for (std::size_t t = 0; t < losses_.size(); ++t) logps[t] = -static_cast<double>(losses_[t]);
    }
}

void PolicyObjective::find_reference(const PackedBatch& batch) {
  if (!reference_ || batch.documents() == 0) return;
  const Tempered tempered(*reference_, settings_.temperature);
  UnitHooks no_hooks;
  reference_losses_.resize(static_cast<std::size_t>(batch.trained()));
  reference_->evaluate(batch, no_hooks, reference_losses_);
}

// Of each of its tokens, in units of the sum that divide() divides.
double PolicyObjective::weight_of(const Completion& c) const {
  return settings_.loss.average == PolicyAverage::completions ? 1 / static_cast<double>(c.size()) : 1;
}

void PolicyObjective::divide(const PackedBatch& batch, LossSums& sums) const {
  const auto documents = static_cast<double>(batch.documents());
  switch (settings_.loss.average) {
    case PolicyAverage::tokens:
      sums.denominator = static_cast<double>(batch.trained());
      break;
    case PolicyAverage::completions:
      sums.denominator = documents;
      break;
    case PolicyAverage::fixed:
      sums.denominator = documents * static_cast<double>(settings_.loss.longest);
      break;
  }
}

void PolicyObjective::log(const PolicyToken& token, double logp, LossSums& sums) const {
  sums.add(kEntropy, -logp);  // of tokens that were drawn: the mean is the entropy
  sums.add(kClipLow, token.clipped_low);
  sums.add(kClipHigh, token.clipped_high);
  sums.add(kClip, token.clipped_low || token.clipped_high);
  if (has_reference()) sums.add(kKl, token.kl);
}

LossSums PolicyObjective::score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) {
  LossSums sums;
  divide(batch, sums);
  std::size_t row = 0;
  for (std::int64_t d = 0; d < batch.documents(); ++d) {
    const Completion& c = now_[static_cast<std::size_t>(batch.first_group + d)];
    if (!c.ended && settings_.mask_truncated) continue;
    const auto n = static_cast<std::size_t>(c.size());
    logps_.resize(n), token_losses_.assign(n, {});
    reference_logps_ = c.reference_logps;
    if (reference_) reference_logps_.resize(n);
    for (std::size_t t = 0; t < n; ++t) logps_[t] = -static_cast<double>(losses[row + t]);
    for (std::size_t t = 0; reference_ && t < n; ++t)
      reference_logps_[t] = -static_cast<double>(reference_losses_[row + t]);
    policy_losses(logps_, c.old_logps, reference_logps_, c.advantage, settings_.loss, token_losses_);
    const double weight = weight_of(c);
    for (std::size_t t = 0; t < n; ++t, ++row) {
      sums.loss += weight * token_losses_[t].value;
      log(token_losses_[t], logps_[t], sums);
      if (!weights.empty()) weights[row] = static_cast<float>(-weight * token_losses_[t].by_logp);
    }
  }
  DML_CHECK(row == losses.size());
  return sums;
}

LossSums PolicyObjective::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  find_reference(batch);
  const Tempered tempered(model, settings_.temperature);
  ScoredRows rows(
      [&](std::span<const float> losses, std::span<float> weights) { return score(batch, losses, weights); });
  model.train(batch, seed, hooks, &rows);
  return rows.sums;
}

LossSums PolicyObjective::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                                   std::span<DocumentLoss> documents) {
  DML_CHECK(documents.empty(), "a completion has no loss of its own");
  find_reference(batch);
  const Tempered tempered(model, settings_.temperature);
  losses_.resize(static_cast<std::size_t>(batch.trained()));
  model.evaluate(batch, hooks, losses_);
  return score(batch, losses_, {});
}

std::size_t PolicyObjective::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  shape.shared = true;
  const std::size_t scoring = model.measure(shape, false), sampling = source_->memory(model).working;
  shape.weighted = true;
  return std::max({scoring, sampling, backward ? model.measure(shape, true) : 0});
}

std::size_t PolicyObjective::extra_memory(CausalLm& model) {
  const std::size_t own =
      reference_ ? reference_->reserved() + static_cast<std::size_t>(reference_->parameters.value_bytes()) : 0;
  return source_->memory(model).beside + own;
}

void PolicyObjective::write_state(const std::string& folder) const {
  const bool needed = sampled_.first >= 0 && step_ + 1 < schedule_.step(sampled_.first).last_together;
  if (needed) write_completions(completions_file(folder), sampled_);
}

void PolicyObjective::read_state(const std::string& checkpoint, const Json& earlier) {
  if (const std::string path = completions_file(checkpoint); file_exists(path)) sampled_ = read_completions(path);
  else if (!earlier.is_null()) sampled_ = completions_in(earlier, checkpoint);
}

}  // namespace dml
