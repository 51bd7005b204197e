// Products of few rows (decoding) with a weight matrix as stored: every weight is read once, converted to float32 in
// registers and used for all rows of x. The chain of additions over k of an element is that of `dots` on the float32
// values, so its bits depend on neither the dtype nor other rows; the scale of int8, one per row, is applied at the
// end.
//
// All sums of a block stay in registers over a range of columns. x is packed once, in the order of use. With up to four
// rows of x the range is all columns, since the second-level cache delivers x fast enough. More rows are read in ranges
// of columns that fit into the first-level cache and are used for a group of rows of w; between two ranges the sums of
// the group are in memory.

constexpr std::int64_t kBytesAhead = 1024;  // of each row
constexpr std::int64_t kCachedRows = 48;    // of w, which are multiplied with one half of x after the other
constexpr std::int64_t kRangeCols = 512;    // a multiple of 256, the columns between two calls of open()
constexpr std::int64_t kGroupRows = 24;     // of w, for each range
constexpr int kQuicklyRead = 256;  // kinds of at least so many bytes for 256 columns take few instructions to read

// Whether a block gives four vectors at a time.
template <class Block>
constexpr bool kFourAtATime = requires(Block b, V (&to)[4]) {
  b.get(0, to);
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

// The products with a block of each of N rows of w.
template <class Block, int M, int N>
DML_INLINE void add_block(const Block (&block)[N], const float* x, V (&acc)[M][N]) {
  if constexpr (kFourAtATime<Block>) {
#pragma GCC unroll 4
    for (int v = 0; v < kBlockVectors; v += 4, x += 4 * M * W)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        V b[4];
        block[n].get(v, b);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
#pragma GCC unroll 8
          for (int m = 0; m < M; ++m) acc[m][n] += load(x + (i * M + m) * W) * b[i];
      }
  } else {
#pragma GCC unroll 16
    for (int v = 0; v < kBlockVectors; ++v, x += M * W) {
      V b[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) b[n] = block[n].get(v);
      add_products<M, N>(x, b, acc);
    }
  }
}

// c (m,N) = or += the sums of the lanes of acc, for rows of w from n0 on.
template <class Rows, int M, int N>
DML_INLINE void write_sums(const Rows& w, std::int64_t n0, const V (&acc)[M][N], std::int64_t m, float* c,
                           std::int64_t ldc, bool add) {
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

// Whether the next N rows of w are prefetched in the order of memory, as one stream instead of N: two threads of a Zen
// 3 read int8 at 27 instead of 23 GB/s. 16-bit weights gain nothing. Products of six or more rows of x read ranges of
// columns, so the next rows are not what they need next.
template <class Rows>
constexpr bool prefetches_in_order(int m) {
  return DML_VECTOR_BYTES == 32 && Rows::kBytes256 < 512 && m < 6;
}

// c (m,N) = or += x (m ≤ M rows, packed) · (N rows from n0 on)ᵀ over columns [begin, end) of both. Sums over earlier
// columns are taken from `kept`, and those of a range that does not reach the last column are put there. `kept` is null
// for a range of all columns.
template <class Rows, int M, int N>
void stored_dots(const Rows& w, std::int64_t n0, const float* packed, std::int64_t begin, std::int64_t end, V* kept,
                 std::int64_t m, float* c, std::int64_t ldc, bool add) {
  V acc[M][N] = {};
  if (kept != nullptr && begin > 0) {
#pragma GCC unroll 32
    for (int j = 0; j < M * N; ++j) acc[j / N][j % N] = kept[j];
  }
  packed += begin * M;
  typename Rows::Row row[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) row[n] = w.row(n0 + n);
  constexpr std::int64_t kAhead = kBytesAhead * 256 / Rows::kBytes256, kBlockBytes = Rows::kBytes256 / 4;
  std::int64_t i = begin;
  for (; i + kBlockCols <= end; i += kBlockCols) {
    // What is needed soon comes into the second-level cache, after the end of these rows the beginning of the next N:
    // no pattern within pages would foresee it. Into the first level it would take the few buffers that loads wait in:
    // 25 instead of 31 GB/s on Zen 4.
    if constexpr (prefetches_in_order<Rows>(M)) {
      const unsigned char* next = row[0].p + N * (w.cols + i) * Rows::kBytes256 / 256;
      for (int line = 0; line < N * kBlockBytes; line += 64) __builtin_prefetch(next + line, 0, 2);
    }
    typename Rows::Block block[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      if constexpr (requires { row[n].open(i); })
        if (i % 256 == 0) row[n].open(i);
      block[n] = row[n].block(i);
      if constexpr (!prefetches_in_order<Rows>(M)) {
        const std::int64_t later = i + (w.cols < kAhead ? w.cols : kAhead);
        const std::int64_t soon = later < w.cols ? later : (N - 1) * w.cols + later;
        for (int line = 0; line < kBlockBytes; line += 64)
          __builtin_prefetch(row[n].p + soon * Rows::kBytes256 / 256 + line, 0, 2);
      }
    }
    add_block(block, packed, acc);
    packed += M * kBlockCols;
  }
  if (kept != nullptr && end < w.cols) {
#pragma GCC unroll 32
    for (int j = 0; j < M * N; ++j) kept[j] = acc[j / N][j % N];
    return;
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
  write_sums<Rows, M, N>(w, n0, acc, m, c, ldc, add);
}

// Rows of w beside m of x: with their sums they fill the registers. With vectors shorter than 64 bytes one row of x has
// four rows of w beside it, too: with eight, a Zen 3 read int8 from its cache at 14 instead of 24 GB/s.
template <class Rows>
constexpr int rows_beside(int m) {
  if (DML_VECTOR_BYTES == 64) return m == 8 ? 3 : m == 1 ? 8 : 4;
  if (kFourAtATime<typename Rows::Block>) return m >= 6 ? 1 : m == 4 ? 2 : 4;
  return m == 8 ? 1 : m == 6 ? 2 : m == 4 ? 3 : 4;
}

template <class Rows, int M>
void stored_panel(const Rows& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                  std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  constexpr int N = rows_beside<Rows>(M);
  pack_rows<Rows, M>(x, m, ldx, w.cols, room);
  std::int64_t n = 0;
  if constexpr (M >= 6 && kGroupRows % N == 0) {
    V kept[kGroupRows / N][M * N];
    for (; w.cols > kRangeCols && n + kGroupRows <= count; n += kGroupRows)
      for (std::int64_t begin = 0; begin < w.cols; begin += kRangeCols) {
        const std::int64_t end = w.cols - begin < kRangeCols ? w.cols : begin + kRangeCols;
        for (std::int64_t r = 0; r < kGroupRows; r += N)
          stored_dots<Rows, M, N>(w, first + n + r, room, begin, end, kept[r / N], m, c + n + r, ldc, add);
      }
  }
  for (; n + N <= count; n += N) stored_dots<Rows, M, N>(w, first + n, room, 0, w.cols, nullptr, m, c + n, ldc, add);
  for (; n < count; ++n) stored_dots<Rows, M, 1>(w, first + n, room, 0, w.cols, nullptr, m, c + n, ldc, add);
}

template <class Rows>
void stored_rows(const Rows& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                 std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  // Short vectors have no room for a second row of w beside eight of x, which then come too slowly; unless turning
  // the weights into float32 takes longer.
  if (DML_VECTOR_BYTES < 64 && Rows::kBytes256 >= kQuicklyRead && m > 6) {
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

// Calls f with the rows of a weight stored in blocks; returns false for other types.
template <class F>
bool with_rows_of_blocks([[maybe_unused]] const Weight& w, [[maybe_unused]] F f) {
#if DML_VECTOR_BYTES >= 32
  const StoredRows rows{static_cast<const unsigned char*>(w.data), w.scales, w.cols};
  auto of = [&](auto kind) { return f(kind), true; };
  switch (w.dtype) {
    case DType::mxfp4:
      return of(Mxfp4Rows{{rows}, w.scale_codes, w.row_step});
    case DType::q4_0:
      return of(SmallRows<4, false>{rows});
    case DType::q4_1:
      return of(SmallRows<4, true>{rows});
    case DType::q5_0:
      return of(SmallRows<5, false>{rows});
    case DType::q5_1:
      return of(SmallRows<5, true>{rows});
    case DType::q8_0:
      return of(Q8_0Rows{rows});
    case DType::q4_k:
      return of(KRows<4>{rows});
    case DType::q5_k:
      return of(KRows<5>{rows});
    case DType::q6_k:
      return of(Q6KRows{rows});
    case DType::iq4_nl:
      return of(Iq4NlRows{rows});
    case DType::iq4_xs:
      return of(Iq4XsRows{rows});
    default:
      return false;
  }
#else
  return false;
#endif
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
      return w.cols % kBlockCols == 0 && with_rows_of_blocks(w, [](auto) {});
  }
}

void few_rows(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x, std::int64_t ldx,
              float* c, std::int64_t ldc, bool add, float* room) {
  auto product = [&](auto rows) { stored_rows(rows, first, count, m, x, ldx, c, ldc, add, room); };
  const StoredRows rows{static_cast<const unsigned char*>(w.data), w.scales, w.cols};
  switch (w.dtype) {
    case DType::f32:
      return product(Float32Rows{rows});
    case DType::bf16:
      return product(Bf16Rows{rows});
    case DType::f16:
      return product(F16Rows{rows});
    case DType::int8:
      return product(Int8Rows{rows});
    case DType::nf4:
      return w.bf16_values ? product(Nf4Rows<true>{rows}) : product(Nf4Rows<false>{rows});
    default:  // or given unpacked (reads_as_stored)
      with_rows_of_blocks(w, product);
  }
}

#if DML_VECTOR_BYTES >= 32
void from_blocks(const Weight& w, std::int64_t row, std::int64_t first, std::int64_t n, float* to) {
  with_rows_of_blocks(w, [&]<class Rows>(const Rows& rows) {
    typename Rows::Row of_row = rows.row(row);
    for (std::int64_t i = first, end = first + n; i < end; i += kBlockCols, to += kBlockCols) {
      if constexpr (requires { of_row.open(i); })
        if (i % 256 == 0) of_row.open(i);
      const typename Rows::Block block = of_row.block(i);
      auto put = [&](int v, V x) __attribute__((always_inline)) { store(to + v * W, Rows::from_lanes(x)); };
      const int vectors = end - i < kBlockCols ? kPart : kBlockVectors;
      if constexpr (kFourAtATime<typename Rows::Block>) {
        for (int v = 0; v < vectors; v += 4) {
          V four[4];
          block.get(v, four);
          for (int j = 0; j < 4; ++j) put(v + j, four[j]);
        }
      } else {
        for (int v = 0; v < vectors; ++v) put(v, block.get(v));
      }
    }
  });
}
#endif
