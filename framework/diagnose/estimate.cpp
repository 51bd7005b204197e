#include "diagnose/estimate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "diagnose/operation_count.h"
#include "nn/hooks.h"

namespace dml {
namespace {

constexpr double kOperations = 5e11;  // of the trial: a few seconds on a slow machine
constexpr std::int64_t kMinElements = 64;

// Recomputation in the backward pass, as a share of the forward pass.
double repeated(const CausalLm& model) {
  const double all = model.recompute == RecomputePolicy::layers ? 1 : model.recompute == RecomputePolicy::mlp ? 0.5 : 0;
  return all * static_cast<double>(std::min(model.recompute_layers, model.spec.layers)) /
         static_cast<double>(model.spec.layers);
}

}  // namespace

TokenTimes estimate_pass(CausalLm& model, const PackedBatch& batch) {
  const OperationCount all = count_operations(model, batch);
  auto each = all.forward / static_cast<double>(batch.size());
  auto n =
      std::clamp(static_cast<std::int64_t>(kOperations / each), std::min(kMinElements, batch.size()), batch.size());
  auto count = static_cast<std::size_t>(n);
  std::vector<Token> labels(batch.tokens.begin(), batch.tokens.begin() + n);  // any: all tokens are computed
  labels.back() = kIgnore;
  std::vector<std::int32_t> starts;
  for (std::int32_t start : batch.starts)
    if (start < n) starts.push_back(start);
  starts.push_back(static_cast<std::int32_t>(n));
  PackedBatch part{batch.tokens.first(count), labels, batch.positions.first(count), starts};
  UnitHooks none;
  double seconds = 0;
  for (int trial = 0; trial < 2; ++trial) {  // the first one maps pages and fills caches
    auto start = std::chrono::steady_clock::now();
    model.evaluate(part, none);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const double each_operation = seconds / count_operations(model, part).forward / static_cast<double>(batch.size());
  return {(all.total() + repeated(model) * all.forward) * each_operation, all.forward * each_operation};
}

double run_seconds(const TokenTimes& times, const RunSize& run, int ranks) {
  return (times.training * static_cast<double>(run.tokens) +
          times.evaluation * static_cast<double>(run.evaluations * run.evaluation_tokens)) /
         ranks;
}

}  // namespace dml
