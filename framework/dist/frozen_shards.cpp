#include "dist/frozen_shards.h"

#include <algorithm>

#include "dist/float_work.h"
#include "dist/shards.h"
#include "kernels/quant_nf4.h"
#include "kernels/stored_format.h"

namespace dml {
namespace {

constexpr std::size_t kAlign = 64, kBuffers = 2;  // bytes; the layer in use and the next one
constexpr std::size_t kFrozen = 3;                // place for part_channel()

std::size_t aligned(std::size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

std::size_t scales_of(const kernels::Weight& w) { return static_cast<std::size_t>(kernels::scale_count(w)); }
// Of the matrix up to the weight's last scale, and their mean.
std::size_t scale_block_count(const kernels::Weight& w) {
  return 1 + (static_cast<std::size_t>(w.first_block) + scales_of(w) + kernels::kNf4ScaleBlock - 1) /
                 kernels::kNf4ScaleBlock;
}

}  // namespace

std::size_t FrozenShards::cut(std::size_t size, int rank, int ranks) {
  return size / kAlign * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks) * kAlign;
}

void FrozenShards::bind(const WeightArray& array, const std::byte* to) {
  kernels::Weight& w = *array.weight;
  switch (array.kind) {
    case Array::data:
      w.data = to;
      break;
    case Array::scales:
      w.scales = reinterpret_cast<const float*>(to);
      break;
    case Array::scale_codes:
      w.scale_codes = reinterpret_cast<const std::uint8_t*>(to);
      break;
    case Array::scale_blocks:
      w.scale_blocks = reinterpret_cast<const float*>(to);
      break;
  }
}

std::vector<FrozenShards::Block> FrozenShards::lay_out(const std::vector<std::vector<kernels::Weight*>>& units) {
  std::vector<Block> blocks(units.size());
  for (std::size_t u = 0; u < units.size(); ++u)
    for (kernels::Weight* w : units[u]) {
      auto add = [&](Array kind, const void* mapped, std::size_t size) {
        if (!mapped) return;
        blocks[u].arrays.push_back({w, kind, static_cast<const std::byte*>(mapped), blocks[u].size, size});
        blocks[u].size += aligned(size);
      };
      add(Array::data, w->data, static_cast<std::size_t>(dtype_bytes(w->dtype, w->rows * w->cols)));
      add(Array::scales, w->scales, scales_of(*w) * sizeof(float));
      add(Array::scale_codes, w->scale_codes, scales_of(*w));
      add(Array::scale_blocks, w->scale_blocks, scale_block_count(*w) * sizeof(float));
    }
  return blocks;
}

FrozenShards::FrozenShards(Comm& comm, std::vector<std::vector<kernels::Weight*>> units)
    : comm_(comm), blocks_(lay_out(units)) {
  std::size_t kept = 0, largest = 0;
  auto range = [&](const Block& b) {
    return std::pair{cut(b.size, comm.rank(), comm.size()), cut(b.size, comm.rank() + 1, comm.size())};
  };
  for (const Block& b : blocks_) {
    kept += range(b).second - range(b).first;
    largest = std::max(largest, b.size);
  }
  own_ = Arena(kept + blocks_.size() * kAlign);
  for (Block& b : blocks_) {
    auto [first, last] = range(b);
    b.own = own_.take<std::byte>(static_cast<std::int64_t>(last - first)).data();
    for (const WeightArray& p : b.arrays)
      if (std::size_t from = std::max(first, p.first), to = std::min(last, p.first + p.size); from < to)
        copy_bytes(b.own + (from - first), p.mapped + (from - p.first), to - from);
  }
  gathered_ = Arena(kBuffers * (largest + kAlign));
  for (std::size_t k = 0; k < kBuffers; ++k)
    buffers_.emplace_back().data = gathered_.take<std::byte>(static_cast<std::int64_t>(largest)).data();
}

FrozenShards::~FrozenShards() {
  for (Buffer& buffer : buffers_) buffer.pending.reset();
}

void FrozenShards::free(Buffer& buffer) {
  if (buffer.unit < 0) return;
  if (buffer.pending) buffer.pending->wait();
  buffer.pending.reset();
  for (const WeightArray& p : blocks_[static_cast<std::size_t>(buffer.unit)].arrays) bind(p, p.mapped);
  buffer.unit = -1;
}

FrozenShards::Buffer& FrozenShards::start(std::size_t unit) {
  for (Buffer& buffer : buffers_)
    if (buffer.unit == static_cast<std::ptrdiff_t>(unit)) return buffer;
  Buffer& buffer = *std::ranges::min_element(buffers_, {}, &Buffer::used);
  free(buffer);
  buffer.unit = static_cast<std::ptrdiff_t>(unit);
  const Block& block = blocks_[unit];
  auto ranks = static_cast<std::size_t>(comm_.size());
  std::vector<std::span<const std::byte>> send(ranks);
  std::vector<std::span<std::byte>> receive(ranks);
  const auto place = [&](int r) { return cut(block.size, r, comm_.size()); };
  const std::span<const std::byte> mine(block.own, place(comm_.rank() + 1) - place(comm_.rank()));
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == comm_.rank()) continue;
    send[static_cast<std::size_t>(r)] = mine;
    receive[static_cast<std::size_t>(r)] = {buffer.data + place(r), place(r + 1) - place(r)};
  }
  copy_bytes(buffer.data + place(comm_.rank()), mine.data(), mine.size());
  buffer.pending =
      comm_.exchange(std::move(send), std::move(receive), {"gathering of frozen weights", part_channel(unit, kFrozen)});
  return buffer;
}

void FrozenShards::need(std::size_t unit, int direction) {
  auto has_weights = [&](std::size_t u) { return u < blocks_.size() && blocks_[u].size > 0; };
  if (has_weights(unit)) {
    Buffer& buffer = start(unit);
    buffer.used = ++clock_;
    if (buffer.pending) {
      buffer.pending->wait();
      buffer.pending.reset();
      for (const WeightArray& p : blocks_[unit].arrays) bind(p, buffer.data + p.first);
    }
  }
  std::size_t next = unit + static_cast<std::size_t>(direction);  // below 0: no such unit
  if (has_weights(next)) start(next).used = ++clock_;
}

void FrozenShards::unbind() {
  for (Buffer& buffer : buffers_) free(buffer);
}

std::size_t FrozenShards::memory(const std::vector<std::vector<kernels::Weight*>>& units, int ranks) {
  std::size_t all = 0, largest = 0;
  for (const Block& b : lay_out(units)) {
    all += b.size;
    largest = std::max(largest, b.size);
  }
  return all / static_cast<std::size_t>(ranks) + kBuffers * largest;
}

}  // namespace dml
