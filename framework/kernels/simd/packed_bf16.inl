// Large products of bf16 by VDPBF16PS: a lane of a panel is a pair of steps of the depth, and the register block is
// that of float32 on half the depth. The instruction adds the product of the pair's second values, then that of the
// first ones, to a float32 sum; it rounds to nearest and takes denormals for zero.

DML_INLINE V multiply_add(V sum, V a, V b) {
  return reinterpret_cast<V>(
      _mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b)));
}
#include "kernels/simd/packed_block.inl"

// Stores lanes [Top, Size) of a panel's column, at most 16. Extra lanes are overwritten by the next column; the last
// column writes none, since another panel may follow it.
template <int Size, int Top>
DML_INLINE void store_pairs(float* column, V x, bool last) {
  if (Top + W > Size && last) store_part(column + Top, x, Size - Top);
  else store(column + Top, x);
}

// Lanes [Top, Size) of the 16 pair columns of the next 32 steps; later lanes first, as store_pairs wants.
template <int Size, int Top, class T>
DML_INLINE void turn_pairs(std::int64_t count, std::int64_t depth, const T* from, std::int64_t ld, float* to) {
  V x[W]{};
#pragma GCC unroll 16
  for (int r = 0; r < W; ++r)
    if (Top + r < Size && Top + r < count) {
      x[r] = pairs_of_row(from + (Top + r) * ld, depth);
      __builtin_prefetch(from + (Size + Top + r) * ld);  // the next panel
      if constexpr (sizeof(T) == 4) __builtin_prefetch(from + (Size + Top + r) * ld + W);
    }
  turn(x);
  const std::int64_t pairs = depth < 2 * W ? (depth + 1) / 2 : W;
  if (pairs == W) {
#pragma GCC unroll 16
    for (int j = 0; j < W; ++j) store_pairs<Size, Top>(to + j * Size, x[j], j == W - 1);
  } else {
    for (std::int64_t j = 0; j < pairs; ++j) store_pairs<Size, Top>(to + j * Size, x[j], j == pairs - 1);
  }
  if constexpr (Top > 0) turn_pairs<Size, Top - W>(count, depth, from, ld, to);
}

template <int Size, class T>
void pack(bool transposed, std::int64_t count, std::int64_t depth, const T* from, std::int64_t ld, float* to) {
  constexpr int kLast = (Size - 1) / W * W;
  if (!transposed) {
    for (std::int64_t k = 0; k < depth; k += 2 * W)
      turn_pairs<Size, kLast>(count, depth - k, from + k, ld, to + k / 2 * Size);
    return;
  }
  constexpr std::int64_t kRowsAhead = 16, kLine = 64;
  for (std::int64_t k = 0; k < depth; k += 2, from += 2 * ld, to += Size) {
    for (std::int64_t line = 0; line < Size; line += kLine / static_cast<std::int64_t>(sizeof(T))) {
      __builtin_prefetch(from + kRowsAhead * ld + line);
      __builtin_prefetch(from + (kRowsAhead + 1) * ld + line);
    }
    const T* second = k + 1 < depth ? from + ld : nullptr;
#pragma GCC unroll 2
    for (int top = 0; top <= kLast; top += W) {
      const V x = pairs_of_columns(from + top, second ? second + top : nullptr, count - top);
      if (top + W > Size && k + 2 >= depth) store_part(to + top, x, Size - top);
      else store(to + top, x);
    }
  }
}

// The depth is a multiple of two.
void packed_gemm_bf16(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t, const float* a, const float* b,
                      float* c, std::int64_t ldc, bool add, PrefetchRange ahead) {
  packed_gemm(m, n, depth / 2, 0, a, b, c, ldc, add, ahead);
}
