#include "pipeline/reference_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "data/tensor_file.h"
#include "train/objective/document_scores.h"

namespace dml {
namespace {

constexpr const char* kTensor = "reference_log_probs";

using Place = std::pair<std::int64_t, std::int64_t>;  // step, micro-batch

std::vector<Place> places(const Schedule& schedule) {
  std::vector<Place> out;
  for (std::int64_t s = 0; s < schedule.steps(); ++s)
    for (std::int64_t m = 0; m < schedule.step(s).micro_batches; ++m) out.push_back({s, m});
  return out;
}

// The micro-batches that hold an unknown example which no earlier one holds.
std::vector<Place> unknown_places(const ReferencePart& part, const ReferenceScores& scores) {
  std::vector<char> seen(scores.answers.size() / 2, 0);
  std::vector<Place> out;
  for (const Place& place : places(part.schedule)) {
    bool wanted = false;
    for (std::int32_t i : part.schedule.examples(place.first, place.second)) {
      const std::int32_t stored = part.examples.stored(i);
      wanted |= std::isnan(scores.answer(stored, 0)) && !std::exchange(seen[static_cast<std::size_t>(stored)], 1);
    }
    if (wanted) out.push_back(place);
  }
  return out;
}

bool has_unknown(const std::vector<double>* values) {
  return values && std::ranges::any_of(*values, [](double v) { return std::isnan(v); });
}

std::vector<std::vector<double>> score(const ReferencePart& part, const std::vector<Place>& which, CausalLm& model,
                                       UnitHooks& hooks, Comm& comm, bool mismatched) {
  const std::function<PackedBatch(std::int64_t)> load = [&](std::int64_t number) {
    const auto [s, m] = which[static_cast<std::size_t>(number)];
    return part.loader.load(s, m);
  };
  const GlobalBatch all{std::ssize(which), load, model, hooks, comm};
  return score_global_batch(all, [mismatched](const PackedBatch& batch) -> const PackedBatch& {
    return mismatched ? *batch.mismatched : batch;
  });
}

}  // namespace

void forget(ReferenceScores& scores, std::int64_t examples, const std::vector<ReferencePart>& parts) {
  scores.answers.assign(static_cast<std::size_t>(2 * examples), ReferenceScores::kUnknown);
  for (const ReferencePart& part : parts)
    if (part.mismatched)
      part.mismatched->assign(static_cast<std::size_t>(part.loader.examples()), ReferenceScores::kUnknown);
}

bool complete(const ReferenceScores& scores, const std::vector<ReferencePart>& parts) {
  return std::ranges::none_of(
      parts, [&](const ReferencePart& p) { return !unknown_places(p, scores).empty() || has_unknown(p.mismatched); });
}

void read_references(const std::string& path, ReferenceScores& scores) {
  if (!file_exists(path)) return;
  try {
    const MappedFile file(path);
    auto stored = tensor<double>(file, kTensor);
    if (stored.size() != scores.answers.size() + scores.mismatched.size() + scores.mismatched_validation.size()) return;
    for (auto* values : {&scores.answers, &scores.mismatched, &scores.mismatched_validation}) {
      for (std::size_t i = 0; i < values->size(); ++i)
        (*values)[i] = stored[i] <= 0 && std::isfinite(stored[i]) ? stored[i] : ReferenceScores::kUnknown;
      stored = stored.subspan(values->size());
    }
  } catch (const UserError&) {  // damaged: computed again
  }
}

void write_references(const std::string& path, const ReferenceScores& scores) {
  TensorWriter<double> writer(path, kTensor);
  for (auto* values : {&scores.answers, &scores.mismatched, &scores.mismatched_validation})
    writer.append(std::span<const double>(*values));
  writer.finish();
}

void compute_references(const std::vector<ReferencePart>& parts, CausalLm& model, UnitHooks& hooks, Comm& comm,
                        ReferenceScores& scores) {
  for (const ReferencePart& part : parts) {
    const std::vector<Place> which = unknown_places(part, scores);
    const auto found = score(part, which, model, hooks, comm, false);
    for (std::size_t k = 0; k < which.size(); ++k) {
      std::size_t document = 0;
      for (std::int32_t i : part.schedule.examples(which[k].first, which[k].second))
        for (std::int64_t d = 0; d < part.examples.documents(i); ++d)
          scores.answer(part.examples.stored(i), d) = found[k][document++];
    }
    if (!has_unknown(part.mismatched)) continue;
    std::size_t number = 0;
    for (const auto& micro_batch : score(part, places(part.schedule), model, hooks, comm, true))
      for (double value : micro_batch) (*part.mismatched)[number++] = value;
    DML_CHECK(number == part.mismatched->size());
  }
}

}  // namespace dml
