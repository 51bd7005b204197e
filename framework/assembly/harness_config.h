// The settings of a task of lm-evaluation-harness, read from YAML: known keys only, `include:` resolved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

struct HarnessConfig {
  std::string path, folder;  // of the YAML file
  std::string output_type;
  std::vector<std::string> test_files, shot_files;  // files of the evaluated rows; of the few-shot examples
  bool shots_are_test = false;                      // few-shot examples come from the evaluated split
  std::string doc_to_text, doc_to_target;
  Json doc_to_choice;  // a string or a list of strings; null if not set
  std::string description, target_delimiter = " ", fewshot_delimiter = "\n\n", gen_prefix;
  std::int64_t num_fewshot = 0, max_gen_toks = 256;
  std::vector<std::string> until;
  Json metrics = Json::array(), filters = Json::array();
};

/// UserError with one line per problem.
HarnessConfig read_harness_config(const std::string& path);

}  // namespace dml
