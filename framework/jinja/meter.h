// Measures the cost of a render: its steps and the bytes of its values. Values report their size when they are created
// and destroyed (value.h), and comparisons count the bytes they read, so filters and operators need no code for it.
// Values made outside of a render (the conversation, constants of the template) are not counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dml::jinja {

inline constexpr std::size_t kMaxHeld = std::size_t{24} << 20;  // bytes of all live values of a render
inline constexpr std::size_t kBytesPerStep = 256;

/// Counts the cost of this thread's render during its lifetime.
class Meter {
 public:
  explicit Meter(std::int64_t max_steps);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  /// Count steps, or bytes moved. Failure when a limit is exceeded; no effect outside of a render.
  static void work(std::int64_t steps);
  static void move(std::size_t bytes) { work(static_cast<std::int64_t>(bytes / kBytesPerStep)); }

 private:
  friend class Weight;
  std::int64_t steps_ = 0, max_steps_;
  std::size_t held_ = 0;
  Meter* outer_;
};

/// The counted memory of a value, for as long as this object lives. Throws Failure beyond kMaxHeld.
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
