// Keys and values of sequences under generation, all layers: a pool of pages, and for each sequence the pages that hold
// its tokens. Pages are counted, so that sequences with the same beginning may share them; rows are only ever appended.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/arena.h"
#include "kernels/cached_rows.h"

namespace dml {

/// Pages of kTokens rows each of keys and of values in every layer. Memory is reserved once, and touched when it is
/// used.
class KvPool {
 public:
  static constexpr std::int64_t kTokens = 16;
  using Page = std::int32_t;

  /// `heads` keys and as many values a token, in float32, bfloat16 or int8.
  KvPool(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, std::int64_t pages, DType dtype = DType::f32);

  static std::int64_t pages_of(std::int64_t tokens) { return (tokens + kTokens - 1) / kTokens; }
  std::int64_t layers() const { return std::ssize(layers_); }
  std::int64_t pages() const { return std::ssize(users_); }
  std::int64_t free() const { return std::ssize(free_); }
  int users(Page page) const { return users_[static_cast<std::size_t>(page)]; }
  /// A free page with one user, the one behind `before` if that is free (rows that lie together are read faster).
  /// There must be one.
  Page take(Page before);
  void share(Page page) { ++users_[static_cast<std::size_t>(page)]; }
  void release(Page page);

  /// All rows of a layer.
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

/// The rows of one sequence.
class KvCache {
 public:
  /// Pages of a pool, taken as they are needed (reserve()).
  explicit KvCache(KvPool& pool) : pool_(&pool) {}
  /// Room for `capacity` tokens in memory of its own.
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
  /// Appends `rows` rows, which every layer has written.
  void advance(std::int64_t rows) { length_ += rows; }
  /// Drops all rows after the first `length`.
  void truncate(std::int64_t length) { length_ = length; }
  /// Copies `other`, a cache of the same shape, of which the first `same` rows are equal already. Both own their
  /// memory.
  void copy(const KvCache& other, std::int64_t same);

  // With a pool.
  /// Begins with pages that others have filled, which it shares.
  void begin(std::span<const KvPool::Page> pages);
  /// Takes pages until there is room for `tokens` tokens.
  void reserve(std::int64_t tokens);
  std::span<const KvPool::Page> table() const { return table_; }
  /// Gives all pages back.
  void clear();
  /// For measuring: sets the length without taking pages. The rows must not be touched.
  void assume(std::int64_t tokens);

  /// Bytes of keys and values of one token in all layers.
  static std::int64_t bytes_per_token(std::int64_t layers, std::int64_t heads, std::int64_t head_dim, DType dtype);

 private:
  kernels::CachedRows view(kernels::CachedRows rows, std::int64_t count) const;

  std::unique_ptr<KvPool> own_;
  KvPool* pool_ = nullptr;
  std::vector<KvPool::Page> table_;  // empty with memory of its own
  std::int64_t capacity_ = 0, length_ = 0;
};

/// New rows of one sequence inside a batch that is generated together.
struct SequenceRows {
  KvCache* cache = nullptr;
  std::int64_t first = 0, count = 0;  // rows of the batch
  std::int64_t outputs = 1;           // how many of the last ones are wanted after the last layer
  std::int64_t length = 0;            // of the whole text that is read, which angles may depend on; 0: up to these rows
  std::int32_t adapter = -1;          // of those on the model (CausalLm::adopt); −1: the model itself
};

}  // namespace dml
