#include "assembly/memory_plan.h"

namespace dml {

std::vector<std::pair<std::string, std::size_t>> MemoryPlan::rows() const {
  std::vector<std::pair<std::string, std::size_t>> all{{"process", process},
                                                       {"frozen weights (mapped)", frozen},
                                                       {"frozen weights (copied)", owned},
                                                       {"trained weights", trained},
                                                       {"packed weights", packed},
                                                       {"gradients", gradients},
                                                       {"optimizer state", optimizer},
                                                       {"communication", communication},
                                                       {"activations", activations},
                                                       {"samples", samples},
                                                       {"data (mapped)", data},
                                                       {"copies for checkpoints", snapshot}};
  std::erase_if(all, [](auto& row) { return row.second == 0; });
  return all;
}

}  // namespace dml
