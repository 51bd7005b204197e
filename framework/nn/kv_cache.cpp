#include "nn/kv_cache.h"

namespace dml {

KvCache::KvCache(std::int64_t layers, std::int64_t width, std::int64_t capacity)
    : memory_(static_cast<std::size_t>(2 * layers * (capacity * width * 4 + static_cast<std::int64_t>(Arena::kAlignment)))),
      width_(width),
      capacity_(capacity) {
  for (std::int64_t l = 0; l < layers; ++l) {
    keys_.push_back(memory_.matrix(capacity, width));
    values_.push_back(memory_.matrix(capacity, width));
  }
}

}  // namespace dml
