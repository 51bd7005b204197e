#include "nn/state_layout.h"

namespace dml {

StateLayout StateLayout::eight_bit(int planes) {
  StateLayout layout(planes);
  layout.eight_bit_ = true;
  return layout;
}

std::int64_t StateLayout::floats(std::int64_t parameter_size, std::int64_t size) const {
  if (!in_bytes(parameter_size)) return planes_ * size;
  std::int64_t blocks = (size + kBlock - 1) / kBlock;
  return planes_ * (blocks + (size + 3) / 4);
}

std::vector<StateLayout::Part> StateLayout::parts(std::int64_t parameter_size, std::int64_t size) const {
  std::vector<Part> parts;
  bool bytes = in_bytes(parameter_size);
  std::int64_t at = 0;
  auto add = [&](const char* name, int plane, bool as_bytes, std::int64_t each) {
    parts.push_back({name + std::to_string(plane), as_bytes, each, at});
    at += (parts.back().entries(size) * parts.back().width() + 3) / 4 * 4;
  };
  for (int plane = 0; bytes && plane < planes_; ++plane) add("scale", plane, false, kBlock);
  for (int plane = 0; plane < planes_; ++plane) add("state", plane, bytes, 1);
  return parts;
}

}  // namespace dml
