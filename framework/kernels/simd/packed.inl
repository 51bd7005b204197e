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
void packed_block(std::int64_t depth, const float* a, const float* b, float* c, std::int64_t ldc, bool add,
                  Fetch& fetch) {
  constexpr std::int64_t kSteps = 8;  // between fetches
  V acc[M][kWideVectors] = {};
  fetch.begin_block();
  std::int64_t line = 0;
  for (std::int64_t done = 0; done < depth; done += kSteps) {
    if (line < M * kWideVectors) {
      __builtin_prefetch(c + line / kWideVectors * ldc + line % kWideVectors * W, 1);
      ++line;
    }
    fetch.one();
    const std::int64_t steps = depth - done < kSteps ? depth - done : kSteps;
    for (std::int64_t k = 0; k < steps; ++k, a += kTall, b += kWide) {
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
                            std::int64_t ldc, bool add, Fetch& fetch) {
  if (rows > kTall / 2) packed_block<kTall>(depth, a, b, c, ldc, add, fetch);
  else if (rows > 2) packed_block<kTall / 2>(depth, a, b, c, ldc, add, fetch);
  else packed_block<2>(depth, a, b, c, ldc, add, fetch);
}

void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t, const float* a, const float* b,
                 float* c, std::int64_t ldc, bool add, Ahead ahead) {
  Fetch fetch(ahead, (m + kTall - 1) / kTall * ((n + kWide - 1) / kWide));
  for (std::int64_t i = 0; i < m; i += kTall)
    for (std::int64_t j = 0; j < n; j += kWide) {
      std::int64_t rows = m - i < kTall ? m - i : kTall, cols = n - j < kWide ? n - j : kWide;
      const float *ap = a + i * depth, *bp = b + j * depth;
      float* to = c + i * ldc + j;
      if (cols == kWide && (rows == kTall || rows == kTall / 2 || rows == 2)) {
        packed_rows(rows, depth, ap, bp, to, ldc, add, fetch);
        continue;
      }
      alignas(64) float edge[kTall * kWide];
      packed_rows(rows, depth, ap, bp, edge, kWide, false, fetch);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t q = 0; q < cols; ++q) {
          float value = edge[r * kWide + q];
          to[r * ldc + q] = add ? to[r * ldc + q] + value : value;
        }
    }
}

// What is packed is float32, or becomes it.
DML_INLINE V load(const bf16* p) {
  return reinterpret_cast<V>(load_halves(reinterpret_cast<const unsigned char*>(p)) << 16);
}
DML_INLINE float value(float x) { return x; }
DML_INLINE float value(bf16 x) { return to_float(x); }

// W columns of the panel's rows from Top on.
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
    // The rows beyond the panel are written over by the next column's; the last column has none.
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

template <int Size, class T>
DML_INLINE void pack(bool turned, std::int64_t count, std::int64_t depth, const T* from, std::int64_t ld, float* to) {
  if (turned) copy_panel<Size>(count, depth, from, ld, to);
  else turn_panel<Size>(count, depth, from, ld, to);
}
void pack_tall(bool turned, std::int64_t rows, std::int64_t depth, const float* from, std::int64_t ld, float* to) {
  pack<kTall>(turned, rows, depth, from, ld, to);
}
void pack_wide(bool turned, std::int64_t cols, std::int64_t depth, const float* from, std::int64_t ld, float* to) {
  pack<kWide>(turned, cols, depth, from, ld, to);
}
void pack_wide_bf16(bool turned, std::int64_t cols, std::int64_t depth, const bf16* from, std::int64_t ld, float* to) {
  pack<kWide>(turned, cols, depth, from, ld, to);
}
