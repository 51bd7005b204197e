// Few rows of x with rows of bf16, on tiles that read them where they are stored, in the precision of bf16: x is
// rounded, sums are float32.

// A tile of x is 16 pairs of steps of the depth, of M rows of x.
template <int M>
struct Bf16Tiles {
  using Sum = float;
  static constexpr bool kTwo = false;
  static constexpr std::uint16_t kWidth = M * 4;
  static constexpr std::int64_t kSecondAt = 0, kBytes = kTile * kWidth;
  static constexpr TileShapes kShapes{kWidth, kWidth};
  DML_INLINE static void multiply_first() {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
  }
  DML_INLINE static void multiply_second() {}
};

template <int M>
void pack_pairs(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, char* to) {
  for (std::int64_t col = 0; col < cols; col += kBlockDepth, to += Bf16Tiles<M>::kBytes) {
    V pair[W] = {};
    for (std::int64_t r = 0; r < m; ++r) pair[r] = pairs_of_row(x + r * ldx + col, cols - col);
    if constexpr (M == 1) {
      __builtin_memcpy(to, &pair[0], sizeof pair[0]);
    } else {
      turn(pair);
      for (int i = 0; i < kTile; ++i) __builtin_memcpy(to + i * Bf16Tiles<M>::kWidth, &pair[i], Bf16Tiles<M>::kWidth);
    }
  }
}

template <int M>
void few_rows_of_bf16(const char* w, std::int64_t cols, std::int64_t count, std::int64_t m, const float* x,
                      std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  using Tiles = Bf16Tiles<M>;
  auto* packed = reinterpret_cast<char*>(room);
  if (count >= kFewRows) prefetch_bytes(w, kFewRows * 2 * cols);
  pack_pairs<M>(x, m, ldx, cols, packed);
  stored_panel<Tiles>(w, 2 * cols, count, packed,
                      [&](const StoredSums<Tiles>& sums, std::int64_t first, std::int64_t rows) {
                        for (std::int64_t r = 0; r < m; ++r)
                          for (std::int64_t n = 0; n < rows; ++n) {
                            float& to = c[r * ldc + first + n];
                            to = add ? to + sums.part[0][n][r] : sums.part[0][n][r];
                          }
                      });
}
