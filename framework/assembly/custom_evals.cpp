#include "assembly/custom_evals.h"

#include "assembly/eval_prompts.h"
#include "assembly/eval_tasks.h"
#include "assembly/model_location.h"
#include "core/error.h"
#include "core/log.h"
#include "evaluate/eval_run.h"

namespace dml {
namespace {

constexpr std::size_t kMaxSamples = 8;  // of an evaluation, in metrics.jsonl and the report

class OwnEvaluation : public Evaluator {
 public:
  OwnEvaluation(std::shared_ptr<const EvalPrompts> prompts, EvalTask task, std::optional<std::int64_t> every,
                bool on_start, std::int64_t context)
      : prompts_(std::move(prompts)), eval_(std::move(task), *prompts_, context), every_(every), on_start_(on_start) {}

  std::vector<Metric> metrics() const override {
    std::vector<Metric> out;
    for (const EvalValue& v : eval_.metrics()) out.push_back({name_of(v), v.greater_is_better});
    return out;
  }
  bool due(const EvaluationMoment& moment) const override {
    if (moment.step == 0) return on_start_;
    return every_ ? moment.step % *every_ == 0 : moment.scheduled;
  }
  void evaluate(const EvaluationContext& context, EvaluationResult& result) override {
    const EvalResult found = [&] {
      const GatheredValues gathered(context.strategy);
      return eval_.run(context.model, context.comm, context.part);
    }();
    for (const EvalValue& v : found.values) result.values.push_back({name_of(v), v.value});
    for (const std::string& line : found.problems) log_warning("{}", line);
    for (std::size_t i = 0; i < std::min(found.answers.size(), kMaxSamples); ++i)
      result.samples.push_back(
          {context.step, found.answers[i].prompt, found.answers[i].reference, found.answers[i].output});
  }
  Memory memory(CausalLm& model, Objective&, int) override { return eval_.memory(model); }

 private:
  std::string name_of(const EvalValue& v) const { return fmt::format("eval_{}_{}", eval_.task().name, v.name); }

  std::shared_ptr<const EvalPrompts> prompts_;
  Eval eval_;
  std::optional<std::int64_t> every_;
  bool on_start_;
};

}  // namespace

std::vector<std::unique_ptr<Evaluator>> custom_evaluators(const Recipe& recipe, const Tokenizer& tokenizer,
                                                          const ModelSpec& spec) {
  std::vector<std::unique_ptr<Evaluator>> out;
  const std::vector<EvalEntry>& entries = recipe.evaluation.evals;
  if (entries.empty()) return out;
  const auto prompts =
      std::make_shared<const AnsweringPrompts>(&recipe, tokenizer, spec, model_directory(recipe.model.base_model));
  auto entry = entries.begin();
  each_task(eval_tasks(recipe.evaluation), [&](EvalTask task) {
    out.push_back(std::make_unique<OwnEvaluation>(prompts, std::move(task), (entry++)->every,
                                                  recipe.train.eval_on_start, spec.max_positions));
  });
  return out;
}

}  // namespace dml
