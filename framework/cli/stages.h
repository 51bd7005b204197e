// The commands, one function each: words in, exit code out.
#pragma once

#include "cli/command.h"

namespace dml {

Command init_command();
Command validate_command();
Command preprocess_command();
Command inspect_command();
Command train_command();
Command resume_command();
Command evaluate_command();
Command score_command();
Command sweep_command();
Command report_command();
Command watch_command();
Command infer_command();
Command serve_command();
Command merge_command();
Command info_command();
Command convert_command();
Command fetch_command();
Command push_command();
Command plan_command();
Command bench_command();
Command launch_command();
Command doctor_command();
Command ckpt_command();
Command tokenize_command();
Command tokenizer_command();
Command template_command();
Command grammar_command();
Command list_command();
Command schema_command();
Command man_command();
Command completion_command();
Command version_command();

}  // namespace dml
