// The register block of the large products. Both factors come packed: kTall rows of one interleaved over the depth,
// kWide columns of the other likewise, so that the inner loop walks through memory in order. Every element of the
// result is one chain of multiply-adds over the depth, whatever the sizes.

#if DML_VECTOR_BYTES == 64
constexpr int kTall = 14, kWideVectors = 2;  // 28 of 32 registers add up
#elif defined(__aarch64__)
constexpr int kTall = 12, kWideVectors = 2;  // 24 of 32
#else
constexpr int kTall = 6, kWideVectors = 2;  // 12 of 16
#endif
constexpr std::int64_t kWide = kWideVectors * W;

template <int M>
void packed_block(std::int64_t depth, const float* a, const float* b, float* c, std::int64_t ldc, bool add) {
  V acc[M][kWideVectors] = {};
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kWideVectors; ++n) __builtin_prefetch(c + m * ldc + n * W, 1);
  for (std::int64_t k = 0; k < depth; ++k, a += kTall, b += kWide) {
    V bv[kWideVectors];
#pragma GCC unroll 8
    for (int n = 0; n < kWideVectors; ++n) bv[n] = load(b + n * W);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      V av = all(a[m]);
#pragma GCC unroll 8
      for (int n = 0; n < kWideVectors; ++n) acc[m][n] += av * bv[n];
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < kWideVectors; ++n) {
      float* to = c + m * ldc + n * W;
      store(to, add ? load(to) + acc[m][n] : acc[m][n]);
    }
}

// At most kTall rows: the lowest of three blocks that holds them.
DML_INLINE void packed_rows(std::int64_t rows, std::int64_t depth, const float* a, const float* b, float* c,
                            std::int64_t ldc, bool add) {
  if (rows > kTall / 2) packed_block<kTall>(depth, a, b, c, ldc, add);
  else if (rows > 2) packed_block<kTall / 2>(depth, a, b, c, ldc, add);
  else packed_block<2>(depth, a, b, c, ldc, add);
}

void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t depth, const float* a, const float* b, float* c,
                 std::int64_t ldc, bool add) {
  for (std::int64_t i = 0; i < m; i += kTall)
    for (std::int64_t j = 0; j < n; j += kWide) {
      std::int64_t rows = m - i < kTall ? m - i : kTall, cols = n - j < kWide ? n - j : kWide;
      const float *ap = a + i * depth, *bp = b + j * depth;
      float* to = c + i * ldc + j;
      if (cols == kWide && (rows == kTall || rows == kTall / 2 || rows == 2)) {
        packed_rows(rows, depth, ap, bp, to, ldc, add);
        continue;
      }
      alignas(64) float edge[kTall * kWide];
      packed_rows(rows, depth, ap, bp, edge, kWide, false);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t q = 0; q < cols; ++q) {
          float value = edge[r * kWide + q];
          to[r * ldc + q] = add ? to[r * ldc + q] + value : value;
        }
    }
}

// Of two vectors cut into runs of Step lanes: their even runs by turns, or their odd ones.
template <int Step, bool Odd, int... Lane>
DML_INLINE V alternate(V low, V high, std::integer_sequence<int, Lane...>) {
  return __builtin_shuffle(low, high, VI{((Lane & Step ? W - Step : 0) + (Odd ? Step : 0) + Lane)...});
}
template <int Step>
DML_INLINE void turn_round(V (&x)[W]) {
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i)
    if ((i & Step) == 0) {
      V low = x[i], high = x[i + Step];
      x[i] = alternate<Step, false>(low, high, std::make_integer_sequence<int, W>{});
      x[i + Step] = alternate<Step, true>(low, high, std::make_integer_sequence<int, W>{});
    }
}
// W × W values turned around in registers: in every round, pairs of vectors swap the halves of a coarser grid.
DML_INLINE void turn(V (&x)[W]) {
  if constexpr (W > 8) turn_round<8>(x);
  if constexpr (W > 4) turn_round<4>(x);
  turn_round<2>(x);
  turn_round<1>(x);
}

// W columns of the panel's rows from Top on.
template <int Height, int Top>
DML_INLINE void turn_block(const float* from, std::int64_t ld, float* to) {
  V x[W]{};
#pragma GCC unroll 16
  for (int r = 0; r < W; ++r)
    if (Top + r < Height) x[r] = load(from + (Top + r) * ld);
  turn(x);
#pragma GCC unroll 16
  for (int k = 0; k < W; ++k) store(to + k * Height + Top, x[k]);
  if constexpr (Top > 0) turn_block<Height, Top - W>(from, ld, to);
}

// to[k · Height + r] = from[r · ld + k] for r < rows, zero from there to Height; k < depth. Writes up to a vector
// beyond the end: what goes beyond a column is written over by what belongs there, the next column's lower rows.
template <int Height>
void turn_panel(std::int64_t rows, std::int64_t depth, const float* from, std::int64_t ld, float* to) {
  std::int64_t k = 0;
  if (rows == Height)
    for (; k + W <= depth; k += W) turn_block<Height, (Height - 1) / W * W>(from + k, ld, to + k * Height);
  for (; k < depth; ++k)
    for (std::int64_t r = 0; r < Height; ++r) to[k * Height + r] = r < rows ? from[r * ld + k] : 0;
}

template <int Width>
void copy_panel(std::int64_t cols, std::int64_t depth, const float* from, std::int64_t ld, float* to) {
  for (std::int64_t k = 0; k < depth; ++k, from += ld, to += Width) {
    if (cols == Width) {
      __builtin_memcpy(to, from, Width * sizeof(float));
    } else {
      for (std::int64_t j = 0; j < Width; ++j) to[j] = j < cols ? from[j] : 0;
    }
  }
}

void pack_tall(bool turned, std::int64_t rows, std::int64_t depth, const float* from, std::int64_t ld, float* to) {
  if (turned) copy_panel<kTall>(rows, depth, from, ld, to);
  else turn_panel<kTall>(rows, depth, from, ld, to);
}
void pack_wide(bool turned, std::int64_t cols, std::int64_t depth, const float* from, std::int64_t ld, float* to) {
  if (turned) copy_panel<kWide>(cols, depth, from, ld, to);
  else turn_panel<kWide>(cols, depth, from, ld, to);
}
