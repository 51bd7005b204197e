// dml tokenizer train: trains a tokenizer on the text of files and datasets.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/train.h"

namespace dml {

struct TokenizerRequest {
  std::vector<std::string> inputs;  // files, folders, patterns: text, Markdown, JSON, CSV
  std::vector<std::string> fields;  // columns to use; empty: all strings except roles and ids
  std::string output;               // a directory; it must be empty unless `force`
  bool force = false;
  std::size_t sample_bytes = std::size_t{1} << 30;
  TokenizerTraining training;
};

/// UserError for inputs that cannot be read, options that do not fit the text, or an output directory that is not
/// empty.
TrainedTokenizer make_tokenizer(const TokenizerRequest& request);

}  // namespace dml
