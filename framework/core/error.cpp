#include "core/error.h"

#include <cerrno>
#include <cstring>

namespace dml {

IoError::IoError(const std::string& path, const std::string& what)
    : Error(ExitCode::io, fmt::format("{}: {}: {}", path, what, std::strerror(errno))) {}

void Problems::raise() const {
  if (!lines_.empty()) throw UserError(fmt::format("{}", fmt::join(lines_, "\n")));
}

void check_failed(const char* condition, const char* file, int line, const std::string& text) {
  throw Error(ExitCode::internal,
              fmt::format("internal error at {}:{}: {}{}{}", file, line, condition, text.empty() ? "" : ": ", text));
}

}  // namespace dml
