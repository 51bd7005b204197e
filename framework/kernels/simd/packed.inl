// Large products in float32: panels of float32, and the register block on them.

DML_INLINE V multiply_add(V sum, V a, V b) { return sum + a * b; }
#include "kernels/simd/packed_block.inl"

// Loads values to pack as float32.
DML_INLINE V load(const bf16* p) {
  return reinterpret_cast<V>(load_16_bit(reinterpret_cast<const unsigned char*>(p)) << 16);
}
DML_INLINE float value(float x) { return x; }
DML_INLINE float value(bf16 x) { return to_float(x); }

// Packs W columns of the panel's rows from Top on.
template <int Height, int Top, class T>
DML_INLINE void turn_block(const T* from, std::int64_t ld, float* to) {
  V x[W]{};
#pragma GCC unroll 16
  for (int r = 0; r < W; ++r)
    if (Top + r < Height) {
      x[r] = load(from + (Top + r) * ld);
      __builtin_prefetch(from + (Height + Top + r) * ld);  // the next panel
    }
  turn(x);
#pragma GCC unroll 16
  for (int k = 0; k < W; ++k) {
    // Rows beyond the panel are overwritten by the next column; for the last column they are not written.
    if (Top + W > Height && k == W - 1) store_part(to + k * Height + Top, x[k], Height - Top);
    else store(to + k * Height + Top, x[k]);
  }
  if constexpr (Top > 0) turn_block<Height, Top - W>(from, ld, to);
}

// to[k · Height + r] = from[r · ld + k] for r < rows, zero from there to Height; k < depth.
template <int Height, class T>
void turn_panel(std::int64_t rows, std::int64_t depth, const T* from, std::int64_t ld, float* to) {
  std::int64_t k = 0;
  if (rows == Height)
    for (; k + W <= depth; k += W) turn_block<Height, (Height - 1) / W * W>(from + k, ld, to + k * Height);
  for (; k < depth; ++k)
    for (std::int64_t r = 0; r < Height; ++r) to[k * Height + r] = r < rows ? value(from[r * ld + k]) : 0;
}

constexpr std::int64_t kRowsAhead = 16;
template <int Width, class T>
void copy_panel(std::int64_t cols, std::int64_t depth, const T* from, std::int64_t ld, float* to) {
  for (std::int64_t k = 0; k < depth; ++k, from += ld, to += Width) {
    __builtin_prefetch(from + kRowsAhead * ld);
    if constexpr (Width > W) __builtin_prefetch(from + kRowsAhead * ld + W);
    std::int64_t j = 0;
    if (cols == Width)
#pragma GCC unroll 2
      for (; j + W <= Width; j += W) store(to + j, load(from + j));
    for (; j < Width; ++j) to[j] = j < cols ? value(from[j]) : 0;
  }
}

// Rounds to the nearest bf16, ties to even; NaN stays NaN.
DML_INLINE void round_panel(std::int64_t size, float* x) {
  for_vectors(
      size, [x](auto in, auto out) __attribute__((always_inline)) {
        const V v = in(x);
        const VU bits = reinterpret_cast<VU>(v), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
        out(x, v == v ? reinterpret_cast<V>(rounded) : v);
      });
}

template <int Size, bool Rounded, class T>
void pack(bool transposed, std::int64_t count, std::int64_t depth, const T* from, std::int64_t ld, float* to) {
  if (transposed) copy_panel<Size>(count, depth, from, ld, to);
  else turn_panel<Size>(count, depth, from, ld, to);
  if constexpr (Rounded && std::is_same_v<T, float>) round_panel(Size * depth, to);
}
