// Products of few rows (decoding) in the precision of bf16: x and the values of the weights are rounded, products and
// sums are those of VDPBF16PS. Every weight is read once, becomes bf16 in registers and is used for all rows of x. The
// chain of additions over k of an element depends on the kind of weights only, not on other rows.

DML_INLINE float sum_of(V x) {
  V8 half[2];
  __builtin_memcpy(half, &x, sizeof x);
  const V8 both = half[0] + half[1];
  return ((both[0] + both[4]) + (both[2] + both[6])) + ((both[1] + both[5]) + (both[3] + both[7]));
}

constexpr int kVectors = kBlockCols / (2 * W);  // of a block

DML_INLINE V8 load_eight(const float* p) { return reinterpret_cast<V8>(_mm256_loadu_ps(p)); }
// Eight values, and eight zeros.
DML_INLINE V of_eight(V8 x) {
  return reinterpret_cast<V>(_mm512_maskz_broadcast_f64x4(0x0f, reinterpret_cast<__m256d>(x)));
}

// x (m ≤ M rows, and M − m of zeros), as bf16 in the order of a kind's lanes: of every block a vector of each row, then
// the next one of each. For kMins the sums of the rounded x over 32 columns follow: of every super-block eight for each
// row.
template <class Row, int M>
void pack_bf16_rows(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, float* to) {
  const std::int64_t blocks = (cols + kBlockCols - 1) / kBlockCols;
  float* sums = to + blocks * M * kBlockCols / 2;
  const V ones = reinterpret_cast<V>(VU16{} + std::uint16_t{0x3f80});
  VU16 lanes[2];
  __builtin_memcpy(lanes, Row::kOrder.data(), sizeof lanes);
  for (std::int64_t b = 0; b < blocks; ++b, to += M * kBlockCols / 2)
    for (int r = 0; r < M; ++r) {
      const float* from = x + r * ldx + b * kBlockCols;
      const std::int64_t some = r < m ? cols - b * kBlockCols : 0;
      VU16 half[2];
      for (int h = 0; h < 2; ++h)
        half[h] = rounded(load_some(from + 2 * h * W, some - 2 * h * W),
                          load_some(from + (2 * h + 1) * W, some - (2 * h + 1) * W));
      for (int v = 0; v < kVectors; ++v)
        store(to + (v * M + r) * W, reinterpret_cast<V>(__builtin_shuffle(half[0], half[1], lanes[v])));
      if constexpr (Row::kMins)
        for (int h = 0; h < 2; ++h)
          sums[b / 4 * 8 * M + r * 8 + b % 4 * 2 + h] = sum_of(multiply_add(V{}, ones, reinterpret_cast<V>(half[h])));
    }
}

// The products with a block of each of N rows. x: M · kBlockCols packed.
template <class Row, int M, int N>
DML_INLINE void add_block(const typename Row::Block (&block)[N], const float* x, V (&acc)[M][N]) {
  if constexpr (Row::kGroups == 0) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      V w[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) w[n] = block[n].get(v);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const V a = load(x + (v * M + m) * W);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) acc[m][n] = multiply_add(acc[m][n], a, w[n]);
      }
    }
  } else {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 2
      for (int g = 0; g < Row::kGroups; ++g) {
        const V scale = block[n].scale(g);
        V w[kVectors];
#pragma GCC unroll 4
        for (int v = g; v < kVectors; v += Row::kGroups) w[v] = block[n].get(v);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
          V part{};
#pragma GCC unroll 4
          for (int v = g; v < kVectors; v += Row::kGroups) part = multiply_add(part, load(x + (v * M + m) * W), w[v]);
          acc[m][n] += part * scale;
        }
      }
  }
}

// c (m,N) = or += x (m ≤ M rows, packed) · (N rows from `first` on)ᵀ.
template <class Row, int M, int N, std::size_t... I>
void dots_of_bf16(const Weight& weight, std::int64_t first, const float* x, std::int64_t m, float* c, std::int64_t ldc,
                  bool add, std::index_sequence<I...>) {
  constexpr std::int64_t kBlockBytes = N * Row::kBytes256 / 4;  // of N rows
  Row row[N] = {Row(weight, first + static_cast<std::int64_t>(I))...};
  V acc[M][N] = {};
  const std::int64_t cols = weight.cols, whole = cols / kBlockCols * kBlockCols;
  const unsigned char* next = row[0].p + N * cols * Row::kBytes256 / 256;
  const float* sums = x + (cols + kBlockCols - 1) / kBlockCols * M * kBlockCols / 2;
  for (std::int64_t i = 0; i < whole; i += kBlockCols, x += M * kBlockCols / 2) {
    if (i % Row::kSuper == 0) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) row[n].open(i);
      if constexpr (Row::kMins) {
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r)
#pragma GCC unroll 8
          for (int n = 0; n < N; ++n) acc[r][n] -= of_eight(row[n].mins * load_eight(sums + r * 8));
        sums += M * 8;
      }
    }
    // The next N rows, in the order of memory: one stream is read faster than N.
    for (int line = 0; line < kBlockBytes; line += 64) __builtin_prefetch(next + line, 0, 2);
    next += kBlockBytes;
    const typename Row::Block block[N] = {row[I].block(i)...};
    add_block<Row, M, N>(block, x, acc);
  }
  if constexpr (Row::kBits > 0)
    if (whole < cols) {
      constexpr int kBytes = kBlockCols * Row::kBits / 8;
      alignas(64) unsigned char rest[N][kBytes] = {};
      for (int n = 0; n < N; ++n) {
        __builtin_memcpy(rest[n], row[n].p + whole * Row::kBits / 8,
                         static_cast<std::size_t>((cols - whole) * Row::kBits / 8));
        row[n].p = rest[n];
      }
      const typename Row::Block block[N] = {row[I].block(0)...};
      add_block<Row, M, N>(block, x, acc);
    }
  for (int r = 0; r < m; ++r)
    for (int n = 0; n < N; ++n) {
      const float sum = row[n].finish(sum_of(acc[r][n]));
      c[r * ldc + n] = add ? c[r * ldc + n] + sum : sum;
    }
}

// Rows of weights beside M of x: with their sums they fill the registers.
template <class Row>
constexpr int rows_beside_bf16(int m) {
  if (Row::kGroups > 0) return m == 8 ? 2 : 4;
  return m == 8 ? 3 : m == 1 ? 8 : 4;
}

template <class Row, int M>
void panel_of_bf16(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                   std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  constexpr int N = rows_beside_bf16<Row>(M);
  pack_bf16_rows<Row, M>(x, m, ldx, w.cols, room);
  std::int64_t n = 0;
  for (; n + N <= count; n += N)
    dots_of_bf16<Row, M, N>(w, first + n, room, m, c + n, ldc, add, std::make_index_sequence<N>{});
  for (; n < count; ++n) dots_of_bf16<Row, M, 1>(w, first + n, room, m, c + n, ldc, add, std::make_index_sequence<1>{});
}

template <class Row>
void rows_of_bf16(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                  std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  if (m == 1) panel_of_bf16<Row, 1>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m == 2) panel_of_bf16<Row, 2>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m <= 4) panel_of_bf16<Row, 4>(w, first, count, m, x, ldx, c, ldc, add, room);
  else panel_of_bf16<Row, 8>(w, first, count, m, x, ldx, c, ldc, add, room);
}

// Calls f.operator()<Row>() with the kind of rows of a weight; returns false for types without one.
template <class F>
bool with_rows(const Weight& w, F f) {
  auto of = [&]<class Row>() { return f.template operator()<Row>(), true; };
  switch (w.dtype) {
    case DType::f32:
      return of.template operator()<F32Row>();
    case DType::bf16:
      return of.template operator()<Bf16Row>();
    case DType::f16:
      return of.template operator()<F16Row>();
    case DType::int8:
      return of.template operator()<Int8Row>();
    case DType::q4_k:
      return of.template operator()<Q4KRow>();
    case DType::q6_k:
      return of.template operator()<Q6KRow>();
    default:
      break;
  }
  if (w.cols % kBlockCols != 0) return false;
  switch (w.dtype) {
    case DType::nf4:
      return of.template operator()<Nf4RowBf16>();
    case DType::q8_0:
      return of.template operator()<Q8_0Row>();
    case DType::q4_0:
      return of.template operator()<FourBitRow<kFromMinus8>>();
    case DType::iq4_nl:
      return of.template operator()<FourBitRow<kIq4Table>>();
    default:
      return false;
  }
}

bool reads_as_stored(const Weight& w) {
  return with_rows(w, []<class>() {}) || avx512::table.reads_as_stored(w);
}

// The kinds that are not read here are multiplied in float32.
void few_rows(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x, std::int64_t ldx,
              float* c, std::int64_t ldc, bool add, float* room) {
  auto product = [&]<class Row>() { rows_of_bf16<Row>(w, first, count, m, x, ldx, c, ldc, add, room); };
  if (!with_rows(w, product)) avx512::table.few_rows(w, first, count, m, x, ldx, c, ldc, add, room);
}
