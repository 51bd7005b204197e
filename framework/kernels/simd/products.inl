// Register-blocked products. All accumulators of a block (M rows of broadcasts by N vectors) stay in registers: 24 of
// 32 with AVX-512, 12 of 16 elsewhere.

typedef float V4 __attribute__((vector_size(16)));
typedef float V4Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
DML_INLINE void read(const float* p, V& x) { x = load(p); }
DML_INLINE void read(const float* p, float& x) { x = *p; }
DML_INLINE void write(float* p, V x) { store(p, x); }
DML_INLINE void write(float* p, float x) { *p = x; }
#if DML_VECTOR_BYTES > 32
typedef float V8 __attribute__((vector_size(32)));
typedef float V8Unaligned __attribute__((vector_size(32), aligned(4), may_alias));
DML_INLINE void read(const float* p, V8& x) { x = *reinterpret_cast<const V8Unaligned*>(p); }
DML_INLINE void write(float* p, V8 x) { *reinterpret_cast<V8Unaligned*>(p) = x; }
#endif
#if DML_VECTOR_BYTES > 16
DML_INLINE void read(const float* p, V4& x) { x = *reinterpret_cast<const V4Unaligned*>(p); }
DML_INLINE void write(float* p, V4 x) { *reinterpret_cast<V4Unaligned*>(p) = x; }
#endif

struct Product {
  std::int64_t k;
  const float* a;
  std::int64_t a_row, a_col;
  const float* b;
  std::int64_t ldb;
  float alpha;
  float* c;
  std::int64_t ldc;
  bool add;
};

template <class Vec, int M, int N>
void product_block(const Product& p, std::int64_t i, std::int64_t j) {
  constexpr int lanes = sizeof(Vec) / 4;
  Vec acc[M][N] = {};
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + j;
  for (std::int64_t k = 0; k < p.k; ++k, a += p.a_col, b += p.ldb) {
    Vec bv[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) read(b + n * lanes, bv[n]);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) acc[m][n] += a[m * p.a_row] * bv[n];
  }
  // Unrolled like the loop above; otherwise the accumulators would be in memory.
  float* c = p.c + i * p.ldc + j;
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      Vec old{};
      if (p.add) read(c + m * p.ldc + n * lanes, old);
      write(c + m * p.ldc + n * lanes, old + p.alpha * acc[m][n]);
    }
}

// All rows of a strip of columns.
template <class Vec, int M, int N>
void product_strip(const Product& p, std::int64_t rows, std::int64_t j) {
  std::int64_t i = 0;
  for (; i + M <= rows; i += M) product_block<Vec, M, N>(p, i, j);
  if constexpr (M > 8)
    for (; i + 8 <= rows; i += 8) product_block<Vec, 8, N>(p, i, j);
  if constexpr (M > 4)
    for (; i + 4 <= rows; i += 4) product_block<Vec, 4, N>(p, i, j);
  if constexpr (M > 2)
    for (; i + 2 <= rows; i += 2) product_block<Vec, 2, N>(p, i, j);
  for (; i < rows; ++i) product_block<Vec, 1, N>(p, i, j);
}

void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row, std::int64_t a_col,
                const float* b, std::int64_t ldb, float alpha, float* c, std::int64_t ldc, bool add) {
  Product p{k, a, a_row, a_col, b, ldb, alpha, c, ldc, add};
  std::int64_t j = 0;
#if DML_VECTOR_BYTES == 64
  for (; j + 4 * W <= n; j += 4 * W) product_strip<V, 6, 4>(p, m, j);
  for (; j + 2 * W <= n; j += 2 * W) product_strip<V, 12, 2>(p, m, j);
  for (; j + W <= n; j += W) product_strip<V, 14, 1>(p, m, j);
#else
  for (; j + 2 * W <= n; j += 2 * W) product_strip<V, 6, 2>(p, m, j);
  for (; j + W <= n; j += W) product_strip<V, 8, 1>(p, m, j);
#endif
#if DML_VECTOR_BYTES > 32
  for (; j + 8 <= n; j += 8) product_strip<V8, 14, 1>(p, m, j);
#endif
#if DML_VECTOR_BYTES > 16
  for (; j + 4 <= n; j += 4) product_strip<V4, 8, 1>(p, m, j);
#endif
  for (; j < n; ++j) product_strip<float, 4, 1>(p, m, j);
}

template <int M, int N>
void dots(std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
          std::int64_t ldc, bool add) {
  V acc[M][N] = {};
  std::int64_t i = 0;
  auto step = [&](auto get) __attribute__((always_inline)) {
    V bv[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) bv[n] = get(b + n * ldb + i);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      V av = get(a + m * lda + i);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) acc[m][n] += av * bv[n];
    }
  };
  for (; i + W <= k; i += W) step([](const float* p) __attribute__((always_inline)) { return load(p); });
  if (std::int64_t rest = k - i; rest > 0)
    step([rest](const float* p) __attribute__((always_inline)) { return load_part(p, rest); });
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float s = sum(acc[m][n]);
      c[m * ldc + n] = add ? c[m * ldc + n] + s : s;
    }
}

template <int M, int N>
void dots_rows(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
               float* c, std::int64_t ldc, bool add) {
  std::int64_t i = 0;
  for (; i + M <= m; i += M) dots<M, N>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
  for (; i < m; ++i) dots<1, N>(k, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
}

void dot_block(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
               std::int64_t ldb, float* c, std::int64_t ldc, bool add) {
  std::int64_t j = 0;
#if DML_VECTOR_BYTES == 64
  if (m < 6)
    for (; j + 8 <= n; j += 8) dots_rows<2, 8>(m, k, a, lda, b + j * ldb, ldb, c + j, ldc, add);
  for (; j + 4 <= n; j += 4) dots_rows<6, 4>(m, k, a, lda, b + j * ldb, ldb, c + j, ldc, add);
#else
  for (; j + 4 <= n; j += 4) dots_rows<3, 4>(m, k, a, lda, b + j * ldb, ldb, c + j, ldc, add);
#endif
  for (; j < n; ++j) dots_rows<4, 1>(m, k, a, lda, b + j * ldb, ldb, c + j, ldc, add);
}

void copy_block(std::int64_t rows, std::int64_t cols, const float* from, std::int64_t ld, float* to) {
  for (std::int64_t i = 0; i < rows; ++i, from += ld, to += cols) {
    std::int64_t j = 0;
    for (; j + W <= cols; j += W) store(to + j, load(from + j));
    for (; j < cols; ++j) to[j] = from[j];
  }
}

// Blocks of W × W in registers, then of 4 × 4.
void transpose(std::int64_t rows, std::int64_t cols, const float* from, std::int64_t ld, float alpha, float* to,
               std::int64_t padded) {
  typedef std::int32_t Pick __attribute__((vector_size(16)));
  std::int64_t r = 0;
  const std::int64_t whole = cols / W * W;
  for (; r + W <= rows; r += W) {
    for (std::int64_t c = 0; c < whole; c += W) {
      V x[W];
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) x[i] = load(from + (r + i) * ld + c) * alpha;
      turn(x);
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) store(to + (c + i) * padded + r, x[i]);
    }
    for (std::int64_t c = whole; c < cols; ++c)
      for (int i = 0; i < W; ++i) to[c * padded + r + i] = alpha * from[(r + i) * ld + c];
  }
  for (; r + 4 <= rows; r += 4) {
    std::int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      V4 row[4];
      for (int i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const V4Unaligned*>(from + (r + i) * ld + c) * alpha;
      V4 low01 = __builtin_shuffle(row[0], row[1], Pick{0, 4, 1, 5}),
         high01 = __builtin_shuffle(row[0], row[1], Pick{2, 6, 3, 7});
      V4 low23 = __builtin_shuffle(row[2], row[3], Pick{0, 4, 1, 5}),
         high23 = __builtin_shuffle(row[2], row[3], Pick{2, 6, 3, 7});
      V4 column[4] = {
          __builtin_shuffle(low01, low23, Pick{0, 1, 4, 5}), __builtin_shuffle(low01, low23, Pick{2, 3, 6, 7}),
          __builtin_shuffle(high01, high23, Pick{0, 1, 4, 5}), __builtin_shuffle(high01, high23, Pick{2, 3, 6, 7})};
      for (int i = 0; i < 4; ++i) *reinterpret_cast<V4Unaligned*>(to + (c + i) * padded + r) = column[i];
    }
    for (; c < cols; ++c)
      for (int i = 0; i < 4; ++i) to[c * padded + r + i] = alpha * from[(r + i) * ld + c];
  }
  for (; r < padded; ++r)
    for (std::int64_t c = 0; c < cols; ++c) to[c * padded + r] = r < rows ? alpha * from[r * ld + c] : 0;
}
