#include "pipeline/memory_plan.h"

#include <cstdio>
#include <fstream>

namespace dml {

std::vector<std::pair<std::string, std::size_t>> MemoryPlan::rows() const {
  std::vector<std::pair<std::string, std::size_t>> all{{"process", process},
                                                       {"frozen weights (mapped)", frozen},
                                                       {"frozen weights (copied)", owned},
                                                       {"trained weights", trained},
                                                       {"gradients", gradients},
                                                       {"optimizer state", optimizer},
                                                       {"communication", communication},
                                                       {"activations", activations},
                                                       {"data (mapped)", data}};
  std::erase_if(all, [](auto& row) { return row.second == 0; });
  return all;
}

std::size_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    std::size_t kb = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %zu", &kb) == 1) return kb * 1024;
  }
  return 0;
}

}  // namespace dml
