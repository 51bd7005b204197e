#include "train/micro_batch_sums.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/error.h"

namespace dml {

static_assert(std::is_trivially_copyable_v<MicroBatchSum>);  // sent as bytes

std::vector<MicroBatchSum> gather_sums(Comm& comm, std::vector<MicroBatchSum> mine) {
  if (comm.size() > 1) {
    auto parts = comm.all_gather({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(MicroBatchSum)});
    mine.clear();
    for (auto& part : parts) {
      DML_CHECK(part.size() % sizeof(MicroBatchSum) == 0);
      std::size_t at = mine.size();
      mine.resize(at + part.size() / sizeof(MicroBatchSum));
      std::memcpy(mine.data() + at, part.data(), part.size());
    }
  }
  std::ranges::sort(mine, {}, &MicroBatchSum::index);
  return mine;
}

MicroBatchSum added_up(const std::vector<MicroBatchSum>& sums) {
  MicroBatchSum all;
  for (const MicroBatchSum& m : sums) {
    all.tokens += m.tokens;
    all.trained_tokens += m.trained_tokens;
    all.losses += m.losses;
  }
  return all;
}

}  // namespace dml
