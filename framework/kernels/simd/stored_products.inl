// Products of few rows (decoding) with a weight matrix as stored: every weight is read once, converted to float32 in
// registers and used for all rows of x. The chain of additions over k of an element is that of `dots` on the float32
// values, so its bits depend on neither the dtype nor other rows; the scale of int8, one per row, is applied at the
// end.
//
// All sums of a block stay in registers from the first column to the last. x is packed once in the order of use; the
// second-level cache then delivers it fast enough (512 bits: 8 loads per 24 multiply-adds).
//
// A kind of rows gives a row; a row gives blocks of 64 columns, a block its vectors in order.

constexpr std::int64_t kBlockCols = 64;  // also the block of an NF4 scale
constexpr int kBlockVectors = static_cast<int>(kBlockCols / W);
constexpr std::int64_t kBytesAhead = 1024;  // of each row
constexpr std::int64_t kCachedRows = 48;    // of w, which are multiplied with one half of x after the other

struct StoredRows {
  const unsigned char* data;  // row 0, column 0
  const float* scales;
  std::int64_t cols;
  DML_INLINE const unsigned char* at(std::int64_t n, int bits) const { return data + ((n * cols * bits) >> 3); }
  /// The value of an element from its sum.
  float finish(std::int64_t /*row*/, float sum) const { return sum; }
  // The order of columns in the lanes of a vector: x is permuted to this order, sums are permuted back.
  DML_INLINE static V to_lanes(V x) { return x; }
  DML_INLINE static V from_lanes(V x) { return x; }
};

struct Float32Rows : StoredRows {
  static constexpr int kBits = 32;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return load(reinterpret_cast<const float*>(p) + v * W); }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i * 4}; }
    void values(std::int64_t i, std::int64_t count, float* to) const {
      __builtin_memcpy(to, p + i * 4, static_cast<std::size_t>(count) * 4);
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
};

struct Bf16Rows : StoredRows {
  static constexpr int kBits = 16;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return reinterpret_cast<V>(load_16_bit(p + 2 * v * W) << 16); }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i * 2}; }
    void values(std::int64_t i, std::int64_t count, float* to) const { from_bf16(p + i * 2, count, to); }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
};

struct F16Rows : StoredRows {
  static constexpr int kBits = 16;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
#if DML_VECTOR_BYTES == 64
      return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 2 * v * W)));
#elif DML_VECTOR_BYTES == 32
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * v * W)));
#else
      V x;
      from_f16(p + 2 * v * W, W, reinterpret_cast<float*>(&x));
      return x;
#endif
    }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i * 2}; }
    void values(std::int64_t i, std::int64_t count, float* to) const { from_f16(p + i * 2, count, to); }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
};

struct Int8Rows : StoredRows {
  static constexpr int kBits = 8;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
      const unsigned char* from = p + v * W;
#if DML_VECTOR_BYTES == 64
      __m512i wide = _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      return _mm512_maskz_cvtepi32_ps(0xffff, wide);
#elif DML_VECTOR_BYTES == 32
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
      V x;
      from_int8(from, W, 1, reinterpret_cast<float*>(&x));
      return x;
#endif
    }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i}; }
    void values(std::int64_t i, std::int64_t count, float* to) const { from_int8(p + i, count, 1, to); }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
  float finish(std::int64_t row, float sum) const { return scales[row] * sum; }
};

// Rows begin at a block: cols is a multiple of 64, without remainder.
template <bool Rounded>
struct Nf4Rows : StoredRows {
  static constexpr int kBits = 4;
#if DML_VECTOR_BYTES >= 32
  // The table times the block's scale stands in registers. With 512 bits the 8 bytes of 16 codes are read into every
  // pair of lanes and shifted, pair t by nibble t: lane 2t + h is column 8h + t, and no byte has to be moved.
  struct Block {
    const unsigned char* p;
    Nf4Table table;
    DML_INLINE V get(int v) const {
#if DML_VECTOR_BYTES == 64
      const __m512i shift = _mm512_set_epi32(24, 24, 28, 28, 16, 16, 20, 20, 8, 8, 12, 12, 0, 0, 4, 4);
      long long bytes;
      __builtin_memcpy(&bytes, p + 8 * v, 8);
      __m512i code = _mm512_maskz_srlv_epi32(0xffff, _mm512_set1_epi64(bytes), shift);
      return _mm512_maskz_permutexvar_ps(0xffff, code, table.part[0]);  // of an index it reads the last four bits
#else
      const __m256i spread = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
      const __m256i shift = _mm256_set_epi32(0, 4, 0, 4, 0, 4, 0, 4);
      int bytes;
      __builtin_memcpy(&bytes, p + 4 * v, 4);
      __m256i code = _mm256_srlv_epi32(_mm256_shuffle_epi8(_mm256_set1_epi32(bytes), spread), shift);
      return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.part[0], code),
                              _mm256_permutevar8x32_ps(table.part[1], code),
                              _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
#endif
    }
  };
  struct Row {
    const unsigned char* p;
    const float* scales;
    DML_INLINE Block block(std::int64_t i) const { return {p + (i >> 1), nf4_table(scales[i >> 6], Rounded)}; }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
#else
  struct Block {
    float values[kBlockCols];
    DML_INLINE V get(int v) const { return load(values + v * W); }
  };
  struct Row {
    const unsigned char* p;
    const float* scales;
    DML_INLINE Block block(std::int64_t i) const {
      Block b;
      from_nf4(p, scales, Rounded, i, kBlockCols, b.values);
      return b;
    }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
#endif
#if DML_VECTOR_BYTES == 64
  DML_INLINE static V to_lanes(V x) {
    const __m512i column = _mm512_set_epi32(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
    return _mm512_maskz_permutexvar_ps(0xffff, column, x);
  }
  DML_INLINE static V from_lanes(V x) {
    const __m512i lane = _mm512_set_epi32(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_maskz_permutexvar_ps(0xffff, lane, x);
  }
#endif
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits), scales + ((n * cols) >> 6)}; }
};

// x (m ≤ M rows, and M − m of zeros) as a loop over its columns reads it: a vector of every row, then the next one of
// every row. Rows many kilobytes apart would fall into the same few cache sets.
template <class Rows, int M>
void pack_rows(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, float* out) {
  for (std::int64_t i = 0; i < cols; i += W)
    for (int r = 0; r < M; ++r, out += W) {
      V v{};
      if (r < m) v = cols - i >= W ? load(x + r * ldx + i) : load_part(x + r * ldx + i, cols - i);
      store(out, Rows::to_lanes(v));
    }
}

// Keeps x in a register: the compiler would otherwise reload it for every product.
DML_INLINE void keep(V& x) {
#if DML_VECTOR_BYTES == 64
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#endif
}

// to[i] = sum(x[i]) for four vectors, in the order of sum(), with a third of the instructions.
DML_INLINE void sums_of_four(const V* x, float* to) {
#if DML_VECTOR_BYTES == 64
  auto halves = [](__m512 a, __m512 b) __attribute__((always_inline)) {
    return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(0xffff, a, b, 0x44),
                         _mm512_maskz_shuffle_f32x4(0xffff, a, b, 0xee));
  };
  const __m512 ab = halves(x[0], x[1]), cd = halves(x[2], x[3]);
  __m512 quarters =
      _mm512_add_ps(_mm512_maskz_shuffle_f32x4(0xffff, ab, cd, 0x88), _mm512_maskz_shuffle_f32x4(0xffff, ab, cd, 0xdd));
  quarters = _mm512_add_ps(quarters, _mm512_maskz_permute_ps(0xffff, quarters, 0x4e));
  quarters = _mm512_add_ps(quarters, _mm512_maskz_permute_ps(0xffff, quarters, 0xb1));
  // Through a register: compressing into memory is a long microprogram on some processors.
  quarters = _mm512_maskz_compress_ps(0x1111, quarters);
  __builtin_memcpy(to, &quarters, 4 * sizeof(float));
#else
  for (int i = 0; i < 4; ++i) to[i] = sum(x[i]);
#endif
}

template <int M, int N>
DML_INLINE void add_products(const float* x, const V (&b)[N], V (&acc)[M][N]) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    V a = load(x + m * W);
    keep(a);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) acc[m][n] += a * b[n];
  }
}

// c (m,N) = or += x (m ≤ M rows, packed) · (N rows from n0 on)ᵀ.
template <class Rows, int M, int N>
void stored_dots(const Rows& w, std::int64_t n0, const float* packed, std::int64_t m, float* c, std::int64_t ldc,
                 bool add) {
  V acc[M][N] = {};
  typename Rows::Row row[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) row[n] = w.row(n0 + n);
  const std::int64_t columns_ahead = w.cols < kBytesAhead * 8 / Rows::kBits ? w.cols : kBytesAhead * 8 / Rows::kBits;
  std::int64_t i = 0;
  for (; i + kBlockCols <= w.cols; i += kBlockCols) {
    // What is needed soon comes into the second-level cache, after the end of these rows the beginning of the next N:
    // no pattern within pages would foresee it. Into the first level it would take the few buffers that loads wait in:
    // 25 instead of 31 GB/s on Zen 4.
    const std::int64_t soon = i + columns_ahead < w.cols ? i + columns_ahead : (N - 1) * w.cols + i + columns_ahead;
    typename Rows::Block block[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      block[n] = row[n].block(i);
      for (int line = 0; line < 8 * Rows::kBits; line += 64)
        __builtin_prefetch(row[n].p + ((soon * Rows::kBits) >> 3) + line, 0, 2);
    }
#pragma GCC unroll 16
    for (int v = 0; v < kBlockVectors; ++v, packed += M * W) {
      V b[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) b[n] = block[n].get(v);
      add_products<M, N>(packed, b, acc);
    }
  }
  if (std::int64_t rest = w.cols - i; rest > 0) {
    alignas(64) float last[N][kBlockCols] = {};
    for (int n = 0; n < N; ++n) row[n].values(i, rest, last[n]);
    for (std::int64_t j = 0; j < rest; j += W, packed += M * W) {
      V b[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) b[n] = load(last[n] + j);
      add_products<M, N>(packed, b, acc);
    }
  }
  V ordered[M * N];
#pragma GCC unroll 32
  for (int j = 0; j < M * N; ++j) ordered[j] = Rows::from_lanes(acc[j / N][j % N]);
  float sums[M * N];
  if constexpr (M * N % 4 == 0) {
    for (int j = 0; j < M * N; j += 4) sums_of_four(ordered + j, sums + j);
  } else {
    for (int j = 0; j < M * N; ++j) sums[j] = sum(ordered[j]);
  }
  for (int r = 0; r < m; ++r)
    for (int n = 0; n < N; ++n) {
      float s = w.finish(n0 + n, sums[r * N + n]);
      c[r * ldc + n] = add ? c[r * ldc + n] + s : s;
    }
}

// Rows of w beside M of x: with their sums they fill the registers.
constexpr int rows_beside(int m) {
  if (DML_VECTOR_BYTES == 64) return m == 8 ? 3 : m == 1 ? 8 : 4;
  return m == 8 ? 1 : m == 6 ? 2 : m == 4 ? 3 : m == 2 ? 4 : 8;
}

template <class Rows, int M>
void stored_panel(const Rows& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                  std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  constexpr int N = rows_beside(M);
  pack_rows<Rows, M>(x, m, ldx, w.cols, room);
  std::int64_t n = 0;
  for (; n + N <= count; n += N) stored_dots<Rows, M, N>(w, first + n, room, m, c + n, ldc, add);
  for (; n < count; ++n) stored_dots<Rows, M, 1>(w, first + n, room, m, c + n, ldc, add);
}

template <class Rows>
void stored_rows(const Rows& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                 std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  // Short vectors have no room for a second row of w beside eight of x, which then come too slowly; unless turning
  // the weights into float32 takes longer.
  if (DML_VECTOR_BYTES < 64 && Rows::kBits > 4 && m > 6) {
    for (; count > 0; first += kCachedRows, count -= kCachedRows, c += kCachedRows) {
      const std::int64_t some = count < kCachedRows ? count : kCachedRows;
      stored_panel<Rows, 4>(w, first, some, 4, x, ldx, c, ldc, add, room);
      stored_panel<Rows, 4>(w, first, some, m - 4, x + 4 * ldx, ldx, c + 4 * ldc, ldc, add, room);
    }
    return;
  }
  if (m == 1) stored_panel<Rows, 1>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m == 2) stored_panel<Rows, 2>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m <= 4) stored_panel<Rows, 4>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m <= 6) stored_panel<Rows, 6>(w, first, count, m, x, ldx, c, ldc, add, room);
  else stored_panel<Rows, 8>(w, first, count, m, x, ldx, c, ldc, add, room);
}

bool reads_as_stored(const Weight& w) {
  switch (w.dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::int8:
      return true;
    case DType::nf4:
      return w.cols % kBlockCols == 0;
    default:
      return false;
  }
}

void few_rows(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x, std::int64_t ldx,
              float* c, std::int64_t ldc, bool add, float* room) {
  StoredRows rows{static_cast<const unsigned char*>(w.data), w.scales, w.cols};
  switch (w.dtype) {
    case DType::f32:
      return stored_rows(Float32Rows{rows}, first, count, m, x, ldx, c, ldc, add, room);
    case DType::bf16:
      return stored_rows(Bf16Rows{rows}, first, count, m, x, ldx, c, ldc, add, room);
    case DType::f16:
      return stored_rows(F16Rows{rows}, first, count, m, x, ldx, c, ldc, add, room);
    case DType::int8:
      return stored_rows(Int8Rows{rows}, first, count, m, x, ldx, c, ldc, add, room);
    case DType::nf4:
      if (w.bf16_values) return stored_rows(Nf4Rows<true>{rows}, first, count, m, x, ldx, c, ldc, add, room);
      return stored_rows(Nf4Rows<false>{rows}, first, count, m, x, ldx, c, ldc, add, room);
    default:  // given unpacked
      return;
  }
}
