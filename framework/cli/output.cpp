#include "cli/output.h"

#include <cstdio>

#include "core/error.h"
#include "core/log.h"

namespace dml {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw IoError("stdout", "cannot write");
}

void show_notes(const RecipeFile& file) {
  for (auto& line : file.notices) log_info("note: {}", line);
  for (auto& line : file.warnings) log_warning("{}", line);
}

}  // namespace dml
