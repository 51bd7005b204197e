// What a run says of itself before its first step.
#include <algorithm>

#include "assembly/distribution.h"
#include "core/parallel.h"
#include "core/size_text.h"
#include "data/inspect.h"
#include "kernels/processor.h"
#include "pipeline/run_plan.h"
#include "train/progress.h"

namespace dml {
namespace {

// Examples, tokens and what was dropped, in one line.
std::string data_text(const DataReport& report, const Schedule& schedule) {
  const std::int64_t tokens = report.total(&DatasetReport::tokens), trained = report.total(&DatasetReport::trained);
  std::int64_t dropped = 0;
  for (auto& d : report.datasets)
    for (auto& [reason, rows] : d.dropped) dropped += rows;
  const ScheduleOptions& o = schedule.options();
  const double share = tokens > 0 ? 100 * static_cast<double>(trained) / static_cast<double>(tokens) : 0;
  std::string text = o.completion > 0
                         ? fmt::format("{}, {}, {} completions of up to {} tokens each",
                                       counted(report.train_examples, "prompt", "prompts"),
                                       counted(tokens, "token", "tokens"), o.copies, o.completion)
                         : fmt::format("{}, {} for validation, {} ({:.0f} % trained)",
                                       counted(report.train_examples, "training example", "training examples"),
                                       grouped(report.validation_examples), counted(tokens, "token", "tokens"), share);
  if (dropped > 0) text += fmt::format(", {} dropped", counted(dropped, "row", "rows"));
  if (o.packing) text += fmt::format(", packing {:.0f} % full", 100 * schedule.fill());
  return text;
}

// The number of steps after which an evaluator is due: entries of `evals` have a calendar of their own.
std::int64_t steps_with_evaluation(const Calendar& calendar, const Schedule& schedule,
                                   const std::vector<std::unique_ptr<Evaluator>>& evaluators) {
  std::int64_t n = 0;
  for (std::int64_t s = 0; s < schedule.steps(); ++s) {
    const EvaluationMoment moment{s + 1, calendar.evaluates(s)};
    n += std::ranges::any_of(evaluators, [&](const auto& evaluator) { return evaluator->due(moment); });
  }
  return n;
}

}  // namespace

std::string plan_text(const MemoryPlan& plan) {
  std::string text;
  for (auto& [name, bytes] : plan.rows())
    if (bytes >= 500'000)  // what rounds to no megabyte is left out
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size_text(bytes));
  return text;
}

std::vector<std::string> RunPlan::header() const {
  const ModelSpec& spec = base.spec;
  auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  const std::int64_t parameters = spec.parameters(), trainable_values = model().parameters.trainable();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("model      {} {}, {} layers × {}, {} parameters{}", spec.model_type,
                              base.directory.empty() ? "from scratch" : base.directory, spec.layers, spec.hidden,
                              count_text(static_cast<double>(parameters)),
                              base.quantized ? fmt::format(", {}", base.quantized->scheme_name())
                              : base.files   ? fmt::format(", {}", safetensors_name(base.dtype()))
                                             : ""));
  lines.push_back(fmt::format("training   {}: {} parameters ({:.2f} %), {} at {:g}, {}", trained->description(),
                              grouped(trainable_values), share(trainable_values, parameters), recipe.optim.optimizer,
                              recipe.optim.learning_rate, recipe.optim.lr_scheduler));
  lines.push_back("data       " + data_text(data.prepared.report(), data.schedule));
  std::string how_shared;
  if (comm.size() > 1) {
    const std::string name = strategy_name(recipe, comm);
    how_shared = fmt::format(" ({}", name);
    if (recipe.distribution.comm_dtype == DType::bf16)
      how_shared += fmt::format(", gradients sent in bf16: the bits are those of {} on {} ranks", name, comm.size());
    how_shared += layout_reason.empty() ? ")" : fmt::format("; {})", layout_reason);
  } else if (!layout_reason.empty()) {
    how_shared = fmt::format(" ({})", layout_reason);
  }
  lines.push_back(
      fmt::format("schedule   {} of up to {}, {}, {}, {} × {}{}", counted(data.schedule.steps(), "step", "steps"),
                  counted(data.schedule.most_micro_batches(), "micro-batch", "micro-batches"),
                  counted(steps_with_evaluation(data.calendar, data.schedule, evaluators), "evaluation", "evaluations"),
                  counted(data.calendar.checkpoints(), "checkpoint", "checkpoints"),
                  counted(comm.size(), "rank", "ranks"), counted(threads(), "thread", "threads"), how_shared));
  if (kernels::precision() == DType::bf16) lines.back() += ", bf16 products";
  lines.push_back(fmt::format("memory     {} per rank: {}", size_text(memory.total()), plan_text(memory)));
  return lines;
}

std::vector<std::string> RunPlan::details() const {
  std::vector<std::string> lines;
  for (auto& line : describe(data.prepared, &data.schedule))
    if (!line.starts_with("warning: ")) lines.push_back("data       " + line);
  return lines;
}

}  // namespace dml
