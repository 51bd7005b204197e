// The settings of a task of lm-evaluation-harness, read from YAML: known keys only, with include: resolved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "recipe/node.h"

namespace dml {

struct HarnessConfig {
  std::string path, folder;  // of the YAML
  std::string output_type;
  std::vector<std::string> test_files, shot_files;  // rows that are evaluated; that examples are taken from
  bool shots_are_test = false;                      // both are the same split
  std::string doc_to_text, doc_to_target;
  Json doc_to_choice;  // a text or a list of texts; null: none
  std::string description, target_delimiter = " ", fewshot_delimiter = "\n\n", gen_prefix;
  std::int64_t num_fewshot = 0, max_gen_toks = 256;
  std::vector<std::string> until;
  Json metrics = Json::array(), filters = Json::array();
};

/// UserError with a line for every problem.
HarnessConfig read_harness_config(const std::string& path);

}  // namespace dml
