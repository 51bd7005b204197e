// dml info: describes a model or adapter directory, and why dml would reject it.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

struct InfoRow {
  std::string key, text;  // human-readable
  Json value;             // machine-readable
};

struct DirectoryInfo {
  std::vector<InfoRow> rows;
  std::vector<std::string> refused;  // one line each; empty: dml can use it
  std::vector<std::string> warnings;
};

/// `name`: a directory, a GGUF file, or a model in the cache of the Hub. UserError when it is neither a model nor an
/// adapter.
DirectoryInfo describe_directory(const std::string& name);

}  // namespace dml
