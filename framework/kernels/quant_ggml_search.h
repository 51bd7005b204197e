// The searches behind ggml's k-quants and codes of unequal distance: for every group the scale (and minimum) of least
// weighted error among some twenty candidates. Of k-quants sixteen groups are searched side by side, each in the order
// of ggml's make_qkx2_quants and make_qx_quants.
#pragma once

#include <bit>
#include <cstdint>

namespace dml::kernels {

/// To the nearest integer, halves to even; |x| < 2^22.
inline int nearest(float x) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(x + 12582912.0f) & 0x7fffff) - 0x400000;
}

inline constexpr float kNoScale = 1e-15f;  // smaller ones count as none

struct GroupSearch {
  float scale, min;      // values are scale · code − min
  float inverse, least;  // the code of x is nearest(inverse · (x − least)), from 0 to …
  int top;
};

/// Groups of 32 in `blocks` (1 or 2) blocks of 256, as q4_k (Bits = 4) and q5_k (5) have them. found: 8 for each block.
template <int Bits>
void search_groups(const float* x, int blocks, GroupSearch* found);

/// The 16 groups of 16 of a q6_k block: values are scale · code, the code of x nearest(inverse · x), from −32 to 31.
void search_symmetric(const float* x, float* scales, float* inverse);

/// The code of iq4_nl whose value is nearest to x; of two equally near ones the upper.
int nearest_iq4(float x);

/// The scale of a group of 32 in iq4_nl: values are scale · kIq4Values[code]. Finds what ggml's
/// quantize_row_iq4_nl_impl finds.
float search_iq4(const float* x);

}  // namespace dml::kernels
