// The cost of a render: the steps it has taken and the bytes its values hold. Values weigh themselves when they are
// made and when they go (value.h), and comparisons count what they look at, so that no filter or operator can be
// forgotten. Values made outside of a render, the conversation and the template's constants, weigh nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dml::jinja {

inline constexpr std::size_t kMaxHeld = std::size_t{24} << 20;  // of all values that are alive in a render
inline constexpr std::size_t kBytesPerStep = 256;

/// Counts for this thread as long as it lives.
class Meter {
 public:
  explicit Meter(std::int64_t max_steps);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  /// Throw Failure beyond the limits; do nothing outside of a render.
  static void work(std::int64_t steps);
  static void move(std::size_t bytes) { work(static_cast<std::int64_t>(bytes / kBytesPerStep)); }

 private:
  friend class Weight;
  std::int64_t steps_ = 0, max_steps_;
  std::size_t held_ = 0;
  Meter* outer_;
};

/// Memory of a value, held for as long as this lives. Throws Failure when there is none left.
class Weight {
 public:
  explicit Weight(std::size_t bytes);
  ~Weight();
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

 private:
  std::size_t bytes_ = 0;
};

}  // namespace dml::jinja
