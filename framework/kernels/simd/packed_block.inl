// The register block (micro-kernel) of the large products. Both factors are packed: kMr rows of one and kNr columns of
// the other, interleaved over the depth, so that the inner loop reads memory sequentially. Every element of the result
// is one chain of multiply_add over the depth, whatever the sizes. The including file defines multiply_add(sum, a, b):
// a lane is a float32, or a pair of bf16, in which case the depth counts pairs.

#if DML_VECTOR_BYTES == 64
constexpr int kMr = 14, kNrVectors = 2;  // 28 of 32 registers are accumulators
#elif defined(__aarch64__)
constexpr int kMr = 12, kNrVectors = 2;  // 24 of 32
#else
constexpr int kMr = 6, kNrVectors = 2;  // 12 of 16
#endif
constexpr std::int64_t kNr = kNrVectors * W;

constexpr std::int64_t kSteps = 8;  // of the depth between prefetches

// What is prefetched during a block: parts of the first factor's next panel and of a later panel of the second factor.
struct Prefetches {
  Fetch a, b;
};

// M rows by N vectors.
template <int M, int N>
void packed_block(std::int64_t depth, const float* a, const float* b, float* c, std::int64_t ldc, bool add,
                  Prefetches& prefetches) {
  V acc[M][N] = {};
  prefetches.a.begin_block();
  prefetches.b.begin_block();
  std::int64_t line = 0;
  for (std::int64_t done = 0; done < depth; done += kSteps) {
    if (line < M * N) {
      __builtin_prefetch(c + line / N * ldc + line % N * W, 1);
      ++line;
    }
    prefetches.a.some();
    prefetches.b.some();
    const std::int64_t steps = depth - done < kSteps ? depth - done : kSteps;
    for (std::int64_t k = 0; k < steps; ++k, a += kMr, b += kNr) {
      V bv[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) bv[n] = load(b + n * W);
#pragma GCC unroll 16
      for (int m = 0; m < M; ++m) {
        V av = all(a[m]);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) acc[m][n] = multiply_add(acc[m][n], av, bv[n]);
      }
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      float* to = c + m * ldc + n * W;
      store(to, add ? load(to) + acc[m][n] : acc[m][n]);
    }
}

// At most kMr rows of N vectors: the lowest of three blocks that holds them.
template <int N>
DML_INLINE void packed_rows(std::int64_t rows, std::int64_t depth, const float* a, const float* b, float* c,
                            std::int64_t ldc, bool add, Prefetches& prefetches) {
  if (rows > kMr / 2) packed_block<kMr, N>(depth, a, b, c, ldc, add, prefetches);
  else if (rows > 2) packed_block<kMr / 2, N>(depth, a, b, c, ldc, add, prefetches);
  else packed_block<2, N>(depth, a, b, c, ldc, add, prefetches);
}

void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t, const float* a, const float* b,
                 float* c, std::int64_t ldc, bool add, PrefetchRange ahead) {
  constexpr std::int64_t kLineFloats = Fetch::kLine / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t down = (m + kMr - 1) / kMr, across = (n + kNr - 1) / kNr;
  // The blocks beside one another prefetch the next panel of the first factor: kSteps · kMr of its values per kSteps.
  const std::int64_t at_once = (kSteps * kMr / kLineFloats + across - 1) / across;
  const std::int64_t panel = kMr * depth * static_cast<std::int64_t>(sizeof(float));  // bytes
  Prefetches prefetches{Fetch({}, 1), Fetch(ahead, down * across)};
  for (std::int64_t i = 0; i < m; i += kMr) {
    const char* next = reinterpret_cast<const char*>(a + (i + kMr) * depth);
    prefetches.a = Fetch({next, panel, panel, i + kMr < m ? 1 : 0}, across, at_once);
    for (std::int64_t j = 0; j < n; j += kNr) {
      std::int64_t rows = m - i < kMr ? m - i : kMr, cols = n - j < kNr ? n - j : kNr;
      const float *ap = a + i * depth, *bp = b + j * depth;
      float* to = c + i * ldc + j;
      const bool whole = (cols == kNr || cols == W) && (rows == kMr || rows == kMr / 2 || rows == 2);
      alignas(64) float edge[kMr * kNr];
      float* result = whole ? to : edge;
      const std::int64_t ld = whole ? ldc : kNr;
      if (cols > W) packed_rows<kNrVectors>(rows, depth, ap, bp, result, ld, whole && add, prefetches);
      else packed_rows<1>(rows, depth, ap, bp, result, ld, whole && add, prefetches);
      if (whole) continue;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t q = 0; q < cols; ++q) {
          float value = edge[r * kNr + q];
          to[r * ldc + q] = add ? to[r * ldc + q] + value : value;
        }
    }
  }
}
