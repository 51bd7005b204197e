// Parameters that the optimizer updates as a whole (StateLayout::whole), while their shards are on several ranks or in
// several parts of one rank. Each has an owner that holds its state. In a step, values and gradients are sent to the
// owner, one parameter per rank at a time, and new values are sent back: the additional memory is that of the largest
// such parameter.
//
//   shards of rank 0, 1, 2   ──values, gradients──►   owner: update   ──values──►   shards of rank 0, 1, 2
//
// Owners are a function of shapes alone, so all ranks agree, and the bits of an update do not depend on the owner.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/arena.h"
#include "dist/comm.h"
#include "dist/shards.h"
#include "dist/strategy.h"

namespace dml {

class WholeParameters {
 public:
  WholeParameters() = default;
  /// For parts that `ranks` ranks divide by shard_range(); `rank` is this one.
  WholeParameters(const ParameterStore& store, std::span<const PartRef> parts, const StateLayout& layout, int ranks,
                  int rank);
  /// Allocates state (zeroed) and the exchange buffer.
  void allocate();
  std::int64_t state_bytes() const { return state_bytes_; }
  std::int64_t room_bytes() const { return largest_ * (width_ + static_cast<std::int64_t>(sizeof(float))); }

  /// Calls `rule` with this rank's shards of other parameters, then with every whole parameter that it owns. `shards`:
  /// this rank's, with gradients unless the rule does not use them. A collective among these ranks.
  using Rule = std::function<void(std::span<const Shard>)>;
  enum class Inputs { values_and_gradients, values };
  void update(Comm& comm, std::span<Shard> shards, const Rule& rule, Inputs inputs = Inputs::values_and_gradients);
  /// The parameters that this rank owns, as shards with state and without values.
  std::span<Shard> owned() { return owned_; }

 private:
  struct RankShard {
    int rank = 0;
    std::size_t part = 0;
    std::int64_t first = 0, size = 0;  // elements of the parameter
  };
  struct Cut {
    const Parameter* parameter = nullptr;
    std::size_t unit = 0;
    int owner = 0;
    std::vector<RankShard> shards;
  };
  /// Direction of a round's exchange.
  enum class Direction { to_owner, from_owner };
  /// The elements of a shard that are exchanged, and the bytes of one.
  struct Field {
    std::span<std::byte> (*bytes)(const Shard&);
    std::int64_t width;
  };
  Field values() const {
    return {[](const Shard& s) { return s.value_bytes(); }, width_};
  }
  static Field gradients() {
    return {[](const Shard& s) { return std::as_writable_bytes(s.grad); }, sizeof(float)};
  }
  void exchange(Comm& comm, std::size_t round, Direction direction, Field field, std::byte* whole);
  std::span<std::byte> own_shard(const RankShard& shard, const Cut& cut, Field field) const;
  bool is_cut(const Shard& shard) const;

  const ParameterStore* store_ = nullptr;
  int ranks_ = 1, rank_ = 0;
  std::int64_t width_ = sizeof(float);             // bytes of a value
  std::vector<Cut> cuts_;                          // in the order of the model
  std::vector<std::vector<std::size_t>> of_rank_;  // by rank: indices of the parameters that it owns
  std::size_t rounds_ = 0, most_shards_ = 0;
  std::int64_t largest_ = 0, state_bytes_ = 0;
  std::vector<std::int64_t> state_floats_;  // of what this rank owns
  std::span<Shard> shards_;
  std::vector<Shard> plain_, owned_;
  Arena state_, room_;
};

}  // namespace dml
