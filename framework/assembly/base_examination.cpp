// The single pass over a base model before training: the digest that checkpoints and ranks compare, and the search for
// values that are not finite. Reading dominates its cost.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "assembly/base_model.h"
#include "checkpoint/finite.h"
#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "dist/group_comm.h"
#include "kernels/quant_ggml.h"
#include "model/mxfp4_names.h"

namespace dml {
namespace {

// Chunks have a fixed size, so that the digest does not depend on which rank reads them; it divides by the width of
// every type.
constexpr std::size_t kChunk = 4 << 20, kInCache = 128 << 10;

struct Chunk {
  const TensorView* tensor;
  std::size_t first;    // byte of the tensor
  bool powers = false;  // of the tensor: mxfp4's scales

  std::span<const std::byte> bytes() const {
    return tensor->bytes.subspan(first, std::min(kChunk, tensor->bytes.size() - first));
  }
};

bool is_mxfp4_scales(const TensorView& t, const ModelFiles& files) {
  return t.dtype == DType::u8 && t.name.ends_with(kMxfp4Scales) && files.find(mxfp4_codes_of(t.name)) != nullptr;
}

std::vector<Chunk> chunks_of(const ModelFiles& files) {
  std::vector<Chunk> chunks;
  for (const TensorView& t : files.tensors())
    for (std::size_t at = 0; at < t.bytes.size(); at += kChunk) chunks.push_back({&t, at, is_mxfp4_scales(t, files)});
  return chunks;
}

// Distinguishes files of the same path on other mounts or hosts.
std::string file_identity(const std::string& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return path;
  return fmt::format("\n{}:{}:{}:{}.{}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

// The first block beginning in the chunk whose scales are no finite numbers, as a number of the tensor's; -1: none.
std::int64_t damaged_block(const Chunk& chunk) {
  const TensorView& t = *chunk.tensor;
  const kernels::BlockFormat& blocks = *kernels::block_format(t.dtype);
  const auto size = static_cast<std::size_t>(blocks.bytes());
  const std::size_t end = chunk.first + chunk.bytes().size();
  for (std::size_t at = (chunk.first + size - 1) / size * size; at < end; at += size)
    if (!kernels::block_is_finite(blocks, t.bytes.data() + at)) return static_cast<std::int64_t>(at / size);
  return -1;
}

// E8M0 has NaN, code 255, among its powers of two. Returns the first of the chunk as a number of the tensor's; -1:
// none.
std::int64_t bad_power(const Chunk& chunk) {
  const auto bytes = chunk.bytes();
  const auto found = std::ranges::find(bytes, std::byte{255});
  return found == bytes.end() ? -1 : static_cast<std::int64_t>(chunk.first) + (found - bytes.begin());
}

void refuse(const Chunk& chunk, const std::string& directory) {
  if (chunk.powers)
    throw UserError("{}: tensor '{}': the scale at {} is NaN (255)", directory, chunk.tensor->name,
                    place_in(*chunk.tensor, bad_power(chunk)));
  if (chunk.tensor->quantized())
    throw UserError("{}: tensor '{}': the scales of block {} are not finite", directory, chunk.tensor->name,
                    damaged_block(chunk));
  auto width = static_cast<std::size_t>(dtype_bytes(chunk.tensor->dtype, 1));
  refuse_not_finite(
      *chunk.tensor, directory,
      static_cast<std::int64_t>(chunk.first / width) + first_not_finite(chunk.tensor->dtype, chunk.bytes()));
}

}  // namespace

std::string BaseModel::examine(Comm& comm) const {
  // Every rank examines every byte that it reads itself; ranks that share the same file (host, device, inode, time)
  // divide the work.
  std::vector<Chunk> chunks;
  std::string seen = comm.host();
  if (files) {
    chunks = chunks_of(*files);
    for (const std::string& path : files->paths()) seen += file_identity(path);
  }
  std::vector<int> members;
  std::vector<std::string> all = comm.all_gather(seen);
  for (int r = 0; r < comm.size(); ++r)
    if (all[static_cast<std::size_t>(r)] == seen) members.push_back(r);
  GroupComm readers(comm, members);

  const auto ranks = static_cast<std::size_t>(readers.size()), me = static_cast<std::size_t>(readers.rank());
  std::vector<std::uint64_t> mine((chunks.size() + ranks - 1 - me) / ranks);
  std::atomic<std::size_t> damaged = chunks.size();  // first damaged chunk of this rank
  parallel_for(static_cast<std::int64_t>(mine.size()), [&](std::int64_t i) {
    const std::size_t number = static_cast<std::size_t>(i) * ranks + me;
    const auto bytes = chunks[number].bytes();
    const DType dtype = chunks[number].tensor->dtype;
    Hasher hasher;
    bool bad = false;
    for (std::size_t at = 0; at < bytes.size(); at += kInCache) {
      auto part = bytes.subspan(at, std::min(kInCache, bytes.size() - at));
      hasher.bytes(part.data(), part.size());
      bad = bad || (!quantized && first_not_finite(dtype, part) >= 0);
    }
    if (chunks[number].powers) bad = bad_power(chunks[number]) >= 0;
    if (chunks[number].tensor->quantized()) bad = damaged_block(chunks[number]) >= 0;
    for (std::size_t before = damaged; bad && number < before;)
      if (damaged.compare_exchange_weak(before, number)) break;
    mine[static_cast<std::size_t>(i)] = hasher.digest64();
    release_pages(bytes);  // frozen weights are paged in again on use
  });
  if (damaged < chunks.size()) refuse(chunks[damaged], files->directory());
  std::vector<std::string> parts =
      readers.all_gather({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::uint64_t)});
  Hasher h;
  h.text(dump(config));
  if (files)
    for (const TensorView& t : files->tensors()) h.text(t.name).number(t.bytes.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    std::uint64_t digest;
    const std::string& part = parts[i % ranks];
    DML_CHECK((i / ranks + 1) * sizeof digest <= part.size());
    std::memcpy(&digest, part.data() + i / ranks * sizeof digest, sizeof digest);
    h.number(digest);
  }
  return h.digest();
}

}  // namespace dml
