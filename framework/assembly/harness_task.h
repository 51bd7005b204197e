// A task of lm-evaluation-harness (EleutherAI): its YAML and local data become rows and checks. Prompts, targets and
// choices are Jinja or names of columns; what needs Python (!function) is refused by line.
//
// Supported: output_type multiple_choice, loglikelihood, loglikelihood_rolling, generate_until; dataset_path json with
// dataset_kwargs.data_files (JSON lines, relative to the file); num_fewshot with the first rows of a split; include;
// filter_list.
#pragma once

#include <optional>
#include <string>

#include "evaluate/eval_task.h"

namespace dml {

/// Whether the text of a YAML file is such a task: it has 'task' and 'output_type' or 'doc_to_text' at the top.
bool is_harness_task(const std::string& text);

/// `rows`: a file in place of the task's own evaluation split. UserError with all problems, by line of the YAML or the
/// data.
EvalTask read_harness_task(const std::string& path, const std::string& name, const std::string& rows = "");

}  // namespace dml
