// What an optimizer keeps per parameter between steps: planes of one float per element; or planes of one byte per element
// with a scale per block of 256, as bitsandbytes keeps them, where parameters of fewer than 4096 elements stay in float32.
//
// Whoever cuts parameters into slices cuts at multiples of a block (dist/slices.h, nn/parameter.cpp), so a slice's state
// holds the same bytes as that stretch of the whole parameter's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dml {

class StateLayout {
 public:
  static constexpr std::int64_t kBlock = 256, kFewest = 4096;

  /// `planes` floats per element.
  StateLayout(int planes) : planes_(planes) {}  // NOLINT: a number of planes is a layout
  static StateLayout eight_bit(int planes);

  /// Whether a parameter of so many elements, of which a slice may be a part, has its state in bytes.
  bool in_bytes(std::int64_t parameter_size) const { return eight_bit_ && parameter_size >= kFewest; }
  /// What a slice of `size` elements of such a parameter takes, in floats.
  std::int64_t floats(std::int64_t parameter_size, std::int64_t size) const;

  /// One tensor of a slice's state: "state0", "scale0", …
  struct Part {
    std::string name;
    bool bytes = false;       // unsigned bytes instead of floats
    std::int64_t each = 1;    // elements that share an entry
    std::int64_t offset = 0;  // of its first entry, in bytes from the start of the slice's state

    /// The entry of an element, or how many entries there are for so many elements.
    std::int64_t entries(std::int64_t elements) const { return (elements + each - 1) / each; }
    std::int64_t width() const { return bytes ? 1 : 4; }
  };
  /// In the order in which they lie.
  std::vector<Part> parts(std::int64_t parameter_size, std::int64_t size) const;

 private:
  int planes_;
  bool eight_bit_ = false;
};

}  // namespace dml
