#include "nn/kv_cache.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

// Of one token: its scales lie apart from its values.
std::int64_t value_bytes(const kernels::CachedRows& c) { return kernels::storage_bytes(c.storage, c.width()); }
std::int64_t scale_count(const kernels::CachedRows& c) { return c.storage == kernels::Storage::int8 ? c.heads : 0; }

void copy_rows(const kernels::CachedRows& from, const kernels::CachedRows& to, std::int64_t first, std::int64_t last) {
  std::copy(from.data + first * value_bytes(from), from.data + last * value_bytes(from),
            to.data + first * value_bytes(to));
  std::copy(from.scales + first * scale_count(from), from.scales + last * scale_count(from),
            to.scales + first * scale_count(to));
}

}  // namespace

std::int64_t KvCache::bytes_per_token(std::int64_t layers, std::int64_t heads, std::int64_t head_dim,
                                      kernels::Storage storage) {
  kernels::CachedRows row{storage, 1, heads, head_dim, nullptr, nullptr};
  return 2 * layers * (value_bytes(row) + scale_count(row) * static_cast<std::int64_t>(sizeof(float)));
}

KvCache::KvCache(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
                 kernels::Storage storage)
    : memory_(static_cast<std::size_t>(capacity * bytes_per_token(layers, heads, head_dim, storage) +
                                       4 * layers * static_cast<std::int64_t>(Arena::kAlignment))),
      capacity_(capacity) {
  auto rows = [&] {
    kernels::CachedRows r{storage, capacity, heads, head_dim, nullptr, nullptr};
    r.data = memory_.take<std::byte>(capacity * value_bytes(r)).data();
    r.scales = memory_.take<float>(capacity * scale_count(r)).data();
    return r;
  };
  for (std::int64_t l = 0; l < layers; ++l) {
    auto keys = rows();
    layers_.push_back({keys, rows()});
  }
}

void KvCache::copy(const KvCache& other, std::int64_t same) {
  DML_CHECK(other.layers_.size() == layers_.size() && other.length_ <= capacity_ && same <= other.length_);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    copy_rows(other.layers_[l].keys, layers_[l].keys, same, other.length_);
    copy_rows(other.layers_[l].values, layers_[l].values, same, other.length_);
  }
  length_ = other.length_;
}

}  // namespace dml
