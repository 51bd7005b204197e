// The cost of logging: time per training step for each log, and for all of them together. Goal: at most 1 % of a step
// of 0.2 s, 2 ms.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "train/metrics_log.h"
#include "train/mlflow.h"
#include "train/tensorboard.h"
#include "train/wandb.h"

namespace dml {
namespace {

enum Sink { kMetrics = 1, kTensorboard = 2, kMlflow = 4, kWandb = 8 };

void steps_with(benchmark::State& state) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("sinks_bench." + std::to_string(getpid()))).string();
  std::filesystem::create_directories(folder);
  std::vector<std::unique_ptr<Observer>> sinks;
  const auto which = state.range(0);
  if (which & kMetrics) sinks.push_back(std::make_unique<MetricsLog>(folder + "/metrics.jsonl"));
  if (which & kTensorboard) sinks.push_back(std::make_unique<TensorboardEvents>(folder + "/runs"));
  if (which & kMlflow)
    sinks.push_back(std::make_unique<MlflowRun>(MlflowRun::Settings{folder + "/mlruns", "Default", ""}));
  if (which & kWandb)
    sinks.push_back(std::make_unique<WandbRun>(WandbRun::Settings{folder, "project", "", "", "", ""}));
  for (auto& sink : sinks) sink->on_start({.steps = 1 << 20, .output_dir = folder});
  StepMetrics m{0, 0.5, 2.5, 0.75, 1e-4, 100, 50, 800, 0.125, 1000, {{"nll", 0.25}}};
  for (auto _ : state) {
    ++m.step;
    for (auto& sink : sinks) sink->on_step(m);
  }
  for (auto& sink : sinks) sink->on_end({});
  sinks.clear();
  std::filesystem::remove_all(folder);
}

BENCHMARK(steps_with)
    ->ArgName("sinks")
    ->Arg(kMetrics)
    ->Arg(kTensorboard)
    ->Arg(kMlflow)
    ->Arg(kWandb)
    ->Arg(15)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dml

BENCHMARK_MAIN();
