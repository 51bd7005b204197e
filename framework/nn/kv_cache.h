// A paged cache of keys and values of all layers: a pool of pages, and for each sequence a table of the pages with its
// tokens. Pages are reference-counted, so that sequences can share prefixes. Rows are only appended.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/arena.h"
#include "kernels/cached_rows.h"

namespace dml {

/// Pages of kTokens rows of keys and values in every layer. Memory is reserved once; the system provides it at the
/// first use.
class KvPool {
 public:
  static constexpr std::int64_t kTokens = 16;
  using Page = std::int32_t;

  /// `heads`: key/value heads. `dtype`: f32, bf16 or int8.
  KvPool(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t pages, DType dtype = DType::f32);

  static std::int64_t pages_of(std::int64_t tokens) { return (tokens + kTokens - 1) / kTokens; }
  std::int64_t layers() const { return std::ssize(layers_); }
  std::int64_t pages() const { return std::ssize(users_); }
  std::int64_t free() const { return std::ssize(free_); }
  int users(Page page) const { return users_[static_cast<std::size_t>(page)]; }
  /// Allocates a page with one user: the page after `before` if it is free, since adjacent rows are read faster. There
  /// must be a free page.
  Page take(Page before);
  void share(Page page) { ++users_[static_cast<std::size_t>(page)]; }
  void release(Page page);

  /// The rows of all pages of a layer.
  const kernels::CachedRows& keys(std::int64_t layer) const { return layers_[static_cast<std::size_t>(layer)].keys; }
  const kernels::CachedRows& values(std::int64_t layer) const {
    return layers_[static_cast<std::size_t>(layer)].values;
  }

 private:
  struct Layer {
    kernels::CachedRows keys, values;
  };
  Arena memory_;
  std::vector<Layer> layers_;
  std::vector<int> users_;
  std::set<Page> free_;
};

/// The cached rows of one sequence.
class KvCache {
 public:
  /// A cache in pages of a pool, which reserve() allocates.
  explicit KvCache(KvPool& pool) : pool_(&pool) {}
  /// A cache with its own memory for `capacity` tokens.
  KvCache(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
          DType dtype = DType::f32);
  ~KvCache() { clear(); }
  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  /// The first `count` rows of a layer.
  kernels::CachedRows keys(std::int64_t layer, std::int64_t count) const { return view(pool_->keys(layer), count); }
  kernels::CachedRows values(std::int64_t layer, std::int64_t count) const { return view(pool_->values(layer), count); }
  /// Increases the length by `rows` after every layer has written them.
  void advance(std::int64_t rows) { length_ += rows; }
  /// Drops all rows after the first `length`.
  void truncate(std::int64_t length) { length_ = length; }
  /// Copies `other`, a cache of the same shape whose first `same` rows are equal already. Both have their own memory.
  void copy(const KvCache& other, std::int64_t same);

  // The following are for caches in a pool.
  /// Starts an empty cache with filled pages of other sequences, which it shares.
  void begin(std::span<const KvPool::Page> pages);
  /// Allocates pages for `tokens` tokens in total.
  void reserve(std::int64_t tokens);
  std::span<const KvPool::Page> table() const { return table_; }
  /// Releases all pages.
  void clear();
  /// For memory measurements: sets the length without allocating pages. The rows must not be read.
  void assume(std::int64_t tokens);

  /// Bytes of keys and values of one token in all layers.
  static std::int64_t bytes_per_token(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, DType dtype);

 private:
  kernels::CachedRows view(kernels::CachedRows rows, std::int64_t count) const;

  std::unique_ptr<KvPool> own_;
  KvPool* pool_ = nullptr;
  std::vector<KvPool::Page> table_;  // empty if the cache has its own memory
  std::int64_t capacity_ = 0, length_ = 0;
};

/// The new rows of one sequence in a batch.
struct SequenceRows {
  KvCache* cache = nullptr;
  std::int64_t first = 0, count = 0;  // range of rows of the batch
  std::int64_t outputs = 1;           // how many of the last rows need an output of the last layer
  std::int64_t length = 0;            // length of the whole prompt, on which rope may depend; 0: up to these rows
  std::int32_t adapter = -1;  // number of an attached adapter (CausalLm::attach_adapter); −1: the model itself
};

}  // namespace dml
