// A task of lm-evaluation-harness (EleutherAI): its YAML file and local data become rows and checks. Prompts, targets
// and choices are Jinja templates or column names; what needs Python (!function) is rejected with its line.
//
// Supported: output_type multiple_choice, loglikelihood, loglikelihood_rolling, generate_until; dataset_path json with
// dataset_kwargs.data_files (JSON lines, relative to the file); num_fewshot with the first rows of a split; include;
// filter_list.
#pragma once

#include <string>

#include "evaluate/eval_task.h"

namespace dml {

/// Whether the text of a YAML file is such a task: it has 'task' and 'output_type' or 'doc_to_text' at top level.
bool is_harness_task(const std::string& text);

/// `rows`: a file that replaces the task's own evaluation split. UserError with all problems, each with its line of the
/// YAML or data file.
EvalTask read_harness_task(const std::string& path, const std::string& name, const std::string& rows = "");

}  // namespace dml
