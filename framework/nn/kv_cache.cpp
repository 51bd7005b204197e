#include "nn/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace dml {
namespace {

// Bytes of one token's values; scales are stored separately.
std::int64_t value_bytes(const kernels::CachedRows& c) { return dtype_bytes(c.dtype, c.width()); }
std::int64_t scale_count(const kernels::CachedRows& c) { return c.dtype == DType::int8 ? c.heads : 0; }

void copy_rows(const kernels::CachedRows& from, const kernels::CachedRows& to, std::int64_t first, std::int64_t last) {
  std::copy(from.data + first * value_bytes(from), from.data + last * value_bytes(from),
            to.data + first * value_bytes(to));
  std::copy(from.scales + first * scale_count(from), from.scales + last * scale_count(from),
            to.scales + first * scale_count(to));
}

}  // namespace

std::int64_t KvCache::bytes_per_token(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, DType dtype) {
  kernels::CachedRows row{dtype, 1, heads, head_dim, nullptr, nullptr};
  return 2 * layers * (value_bytes(row) + scale_count(row) * static_cast<std::int64_t>(sizeof(float)));
}

KvPool::KvPool(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t pages, DType dtype)
    : memory_(static_cast<std::size_t>(pages * kTokens * KvCache::bytes_per_token(layers, heads, head_dim, dtype) +
                                       4 * layers * static_cast<std::int64_t>(Arena::kAlignment))),
      users_(static_cast<std::size_t>(pages), 0) {
  auto rows = [&] {
    kernels::CachedRows r{dtype, pages * kTokens, heads, head_dim, nullptr, nullptr};
    r.data = memory_.take<std::byte>(r.rows * value_bytes(r)).data();
    r.scales = memory_.take<float>(r.rows * scale_count(r)).data();
    return r;
  };
  for (std::int64_t l = 0; l < layers; ++l) {
    auto keys = rows();
    layers_.push_back({keys, rows()});
  }
  for (Page page = 0; page < pages; ++page) free_.insert(free_.end(), page);
}

KvPool::Page KvPool::take(Page before) {
  DML_CHECK(!free_.empty());
  auto next = free_.find(before + 1);
  if (next == free_.end()) next = free_.begin();
  const Page page = *next;
  free_.erase(next);
  users_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void KvPool::release(Page page) {
  int& users = users_[static_cast<std::size_t>(page)];
  DML_CHECK(users > 0);
  if (--users == 0) free_.insert(page);
}

KvCache::KvCache(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t capacity, DType dtype)
    : own_(std::make_unique<KvPool>(layers, heads, head_dim, KvPool::pages_of(capacity), dtype)),
      pool_(own_.get()),
      capacity_(capacity) {}

KvCache::KvCache(KvCache&& other) noexcept
    : own_(std::move(other.own_)),
      pool_(other.pool_),
      table_(std::exchange(other.table_, {})),
      capacity_(other.capacity_),
      length_(other.length_) {}

KvCache& KvCache::operator=(KvCache&& other) noexcept {
  if (this == &other) return *this;
  clear();
  own_ = std::move(other.own_);
  pool_ = other.pool_;
  table_ = std::exchange(other.table_, {});
  capacity_ = other.capacity_;
  length_ = other.length_;
  return *this;
}

kernels::CachedRows KvCache::view(kernels::CachedRows rows, std::int64_t count) const {
  rows.rows = count;
  if (!own_) rows.pages = table_.data(), rows.page_rows = KvPool::kTokens;
  return rows;
}

void KvCache::begin(std::span<const KvPool::Page> pages) {
  DML_CHECK(!own_ && table_.empty());
  for (KvPool::Page page : pages) pool_->share(page);
  table_.assign(pages.begin(), pages.end());
  length_ = capacity_ = std::ssize(table_) * KvPool::kTokens;
}

void KvCache::reserve(std::int64_t tokens) {
  DML_CHECK(!own_);
  while (std::ssize(table_) < KvPool::pages_of(tokens))
    table_.push_back(pool_->take(table_.empty() ? -2 : table_.back()));
  capacity_ = std::ssize(table_) * KvPool::kTokens;
}

void KvCache::clear() {
  for (KvPool::Page page : table_) pool_->release(page);
  table_.clear();
  length_ = 0;
  if (!own_) capacity_ = 0;
}

void KvCache::assume(std::int64_t tokens) {
  length_ = tokens;
  capacity_ = std::numeric_limits<std::int64_t>::max();
}

void KvCache::copy(const KvCache& other, std::int64_t same) {
  DML_CHECK(own_ && other.own_ && other.pool_->layers() == pool_->layers());
  DML_CHECK(other.length_ <= capacity_ && same <= other.length_);
  for (std::int64_t l = 0; l < pool_->layers(); ++l) {
    copy_rows(other.pool_->keys(l), pool_->keys(l), same, other.length_);
    copy_rows(other.pool_->values(l), pool_->values(l), same, other.length_);
  }
  length_ = other.length_;
}

}  // namespace dml
