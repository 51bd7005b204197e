// The commands, one function each. A new command is a file and an entry here.
#pragma once

#include "cli/command.h"

namespace dml {

Command init_command();
Command validate_command();
Command diff_command();
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
Command help_command();
Command man_command();
Command completion_command();
Command version_command();

/// In the order of the overview.
inline constexpr Command (*kCommands[])() = {
    init_command,     validate_command,  diff_command,       preprocess_command, inspect_command, train_command,
    resume_command,   evaluate_command,  score_command,      sweep_command,      report_command,  watch_command,
    infer_command,    serve_command,     merge_command,      info_command,       convert_command, fetch_command,
    push_command,     plan_command,      bench_command,      launch_command,     doctor_command,  ckpt_command,
    tokenize_command, tokenizer_command, template_command,   grammar_command,    list_command,    schema_command,
    help_command,     man_command,       completion_command, version_command};

}  // namespace dml
