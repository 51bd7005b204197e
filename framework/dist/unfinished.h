// The error of a failed wait, with the same text for every Comm.
#pragma once

#include <string>

#include "core/error.h"
#include "dist/comm.h"

namespace dml {

inline Error unfinished(const Comm& comm, const Operation& operation, std::size_t bytes, const std::string& why) {
  std::string step = comm.step() < 0 ? "before or after training" : fmt::format("step {}", comm.step());
  return Error(ExitCode::distributed, fmt::format("rank {} on {}: {} of {} bytes ({}): {}", comm.rank(), comm.host(),
                                                  operation.name, bytes, step, why));
}

}  // namespace dml
