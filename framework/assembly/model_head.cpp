#include "assembly/model_head.h"

#include "core/error.h"
#include "model/adapter_plan.h"

namespace dml {

ModelTask task_of(HeadKind head) {
  if (head == HeadKind::causal_lm) return ModelTask::causal_lm;
  return head == HeadKind::sequence_classification ? ModelTask::reward : ModelTask::process_reward;
}

void set_head(ModelSpec& spec, const ModelSection& section, const std::string& source) {
  const HeadKind wanted = section.task == ModelTask::causal_lm ? HeadKind::causal_lm
                          : section.task == ModelTask::reward  ? HeadKind::sequence_classification
                                                               : HeadKind::token_classification;
  const std::int64_t labels = section.task == ModelTask::process_reward ? 2 : 1;
  if (spec.head == wanted && (wanted == HeadKind::causal_lm || spec.labels == labels)) return;
  if (spec.head != HeadKind::causal_lm)
    throw UserError("{}: is a model for {} classification with {} labels, {}", source,
                    spec.head == HeadKind::sequence_classification ? "sequence" : "token", spec.labels,
                    wanted == HeadKind::causal_lm
                        ? "which gives scores instead of text: dml score DIR scores texts with a reward model"
                        : "not what this recipe trains");
  if (spec.naming->file_prefix)
    throw UserError("{}: a {} with parts for images cannot become a reward model", source, spec.model_type);
  spec = spec.with_head(wanted, labels);
}

void require_head(const AdapterConfig& adapter, const ModelSpec& spec, const std::string& directory) {
  if (spec.head == HeadKind::causal_lm) return;
  const std::string head = embedding_and_head(spec)[1].module();
  if (!AdapterRules(adapter, directory).saves(head))
    throw UserError(
        "{}: is an adapter of a language model, without '{}'; merge it into its base (dml merge) to start a reward "
        "model from it",
        directory, head);
}

}  // namespace dml
