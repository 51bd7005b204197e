#include "pipeline/score.h"

#include <algorithm>
#include <cmath>

#include "assembly/base_model.h"
#include "assembly/job.h"
#include "assembly/vocabulary.h"
#include "core/error.h"
#include "core/interruption.h"
#include "data/example.h"
#include "data/loader.h"
#include "pipeline/compared_models.h"
#include "pipeline/infer.h"
#include "train/token_loss.h"

namespace dml {
namespace {

constexpr std::int64_t kMicroBatch = 8;  // examples of a micro-batch, in order

ScheduleOptions in_order(const Recipe& recipe) {
  ScheduleOptions options;
  options.sequence_len = recipe.data.sequence_len;
  options.micro_batch_size = kMicroBatch;
  options.keep_order = true;
  return options;
}

/// The mean loss of every example; micro-batches are distributed over the ranks in turn.
std::vector<double> losses_of(CausalLm& model, const Examples& examples, const Schedule& schedule, Comm& comm) {
  Loader loader(examples, schedule);
  TokenLoss objective;
  model.set_length(std::max<std::int64_t>(schedule.longest(), schedule.options().sequence_len));
  model.reserve(objective.measure(model, {schedule.longest(), schedule.longest(), kMicroBatch}, false));
  UnitHooks none;                                                      // every rank holds the whole model
  std::vector<double> all(static_cast<std::size_t>(examples.size()));  // zero where another rank computes it
  for (std::int64_t batch = comm.rank(); batch * kMicroBatch < examples.size(); batch += comm.size()) {
    check_interruption();
    std::vector<std::int32_t> chosen;
    for (std::int64_t i = batch * kMicroBatch; i < std::min(examples.size(), (batch + 1) * kMicroBatch); ++i)
      chosen.push_back(static_cast<std::int32_t>(i));
    std::vector<DocumentLoss> documents(chosen.size());
    objective.evaluate(model, loader.load(chosen), none, documents);
    for (std::size_t d = 0; d < chosen.size(); ++d)
      if (documents[d].denominator > 0)
        all[static_cast<std::size_t>(chosen[d])] = documents[d].loss / documents[d].denominator;
  }
  comm.sum(all);
  return all;
}

}  // namespace

std::vector<RowScore> score_rows(const Recipe& wanted, Comm& comm, const std::optional<std::string>& adapter) {
  DML_CHECK(wanted.data.rows == RowKind::text);
  Recipe recipe = wanted;
  recipe.data.scores = {};
  set_up_processor(recipe.train, comm);
  std::vector<std::string> adapters;
  if (adapter) adapters = {*adapter};
  const AnsweringModel trained = answering_model(&recipe, std::nullopt, adapters);
  const auto tokenizer = open_tokenizer(trained.section);
  const Prepared prepared = prepare_on_ranks(recipe, *tokenizer, comm);
  const Examples examples = prepared.all();
  if (examples.empty()) throw UserError("there is no row to score: every one was dropped (see dml inspect)");
  const Schedule schedule(examples.lengths(), in_order(recipe));

  auto losses = [&](const ModelSection& section, const std::vector<std::string>& over) {
    BaseModel base = open_base_model(section, recipe.adapter);
    fit_vocabulary(base, trained.adapters);
    append_missing_rows(base, tokens_with_rows(*tokenizer, recipe.adapter), recipe.model, recipe.train.seed);
    const auto model = make_inference_model(base, section.frozen_storage, over);
    const std::vector<double> all = losses_of(*model, examples, schedule, comm);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!std::isfinite(all[i]))
        throw Error(ExitCode::diverged, fmt::format("{}: the loss of {} is not a finite number",
                                                    over.empty() ? section.base_model : over.back(),
                                                    prepared.place(examples.stored(static_cast<std::int64_t>(i)))));
    return all;
  };
  std::vector<RowScore> out(static_cast<std::size_t>(examples.size()));
  const bool apart = !trained.adapters.empty() || trained.section.base_model != recipe.model.base_model;
  std::vector<double> before, after;
  if (!apart || base_is_there(recipe.model)) before = losses(recipe.model, {});
  if (apart) after = losses(trained.section, trained.adapters);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto labels = examples.labels(at);
    out[i].place = prepared.place(examples.stored(at));
    out[i].digest = digest_of_example(examples.ids(at), labels);
    out[i].tokens = examples.length(at);
    const auto targets = labels.subspan(std::min<std::size_t>(1, labels.size()));  // nothing predicts the first token
    out[i].trained_tokens = std::ssize(targets) - std::ranges::count(targets, kIgnore);
    out[i].base_loss = before.empty() ? after[i] : before[i];
    if (!before.empty() && !after.empty()) out[i].loss = after[i];
  }
  return out;
}

}  // namespace dml
