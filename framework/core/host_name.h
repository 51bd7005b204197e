// The name of this machine.
#pragma once

#include <unistd.h>

#include <string>

namespace dml {

inline std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace dml
