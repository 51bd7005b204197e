// The register block of the large products on AMX tiles, in float32 precision: a float32 is the sum of three bf16, x = x₁ +
// x₂ + x₃ with |x₂| ≤ 2⁻⁹|x| and |x₃| ≤ 2⁻¹⁸|x|, so six products of parts give x · y but for a relative 2⁻²⁶ (the
// decomposition of Henry, Tang and Heinecke, 2019). Products of bf16 are exact in float32, where the tiles add them up.
//
// A panel of 32 rows lies in blocks of 32 steps of the depth: x₁ of both tiles, x₂, x₃. Values that are bf16 to begin with
// have x₁ alone, and take three products. A tile is 16 rows of 32 bf16; of the second factor 16 pairs of steps of 16 columns
// each.

constexpr int kTile = 16, kBlockDepth = 32;
constexpr std::int64_t kTall = 2 * kTile, kWide = 2 * kTile;
constexpr std::int64_t kTileBytes = 1024, kPartBytes = 2 * kTileBytes, kBlockBytes = 3 * kPartBytes;

// Tiles 4 and 5 hold the first factor; 6 and 7 the second one, 0 and 2 sums with tile 6, 1 and 3 sums with tile 7.
struct TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  constexpr TileShapes(std::uint16_t six, std::uint16_t seven)
      : row_bytes{six, seven, six, seven, 64, 64, six, seven} {}
};
constexpr TileShapes kShapes(64, 64);

// The compiler does not know that tile instructions read and write memory: nothing may move across this.
DML_INLINE void memory_is_used() { __asm__ volatile("" ::: "memory"); }

// Sums of Down × Across tiles, in tiles 0 to 3; small terms first. `next` is the block of the result that comes then: its
// lines are asked for on the way.
template <int Down, int Across>
void tile_block(std::int64_t blocks, std::int64_t bf16_blocks, const char* a, const char* b, float* c, std::int64_t ldc,
                bool add, const float* next, Fetch& fetch) {
  const std::int64_t row = ldc * static_cast<std::int64_t>(sizeof(float));
  memory_is_used();
  if (add) {
    _tile_loadd(0, c, row);
    if constexpr (Across > 1) _tile_loadd(1, c + kTile, row);
    if constexpr (Down > 1) _tile_loadd(2, c + kTile * ldc, row);
    if constexpr (Down > 1 && Across > 1) _tile_loadd(3, c + kTile * ldc + kTile, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  auto load_a = [&](int part) __attribute__((always_inline)) {
    _tile_loadd(4, a + part * kPartBytes, 64);
    if constexpr (Down > 1) _tile_loadd(5, a + part * kPartBytes + kTileBytes, 64);
  };
  auto load_b = [&](int part) __attribute__((always_inline)) {
    _tile_loadd(6, b + part * kPartBytes, 64);
    if constexpr (Across > 1) _tile_loadd(7, b + part * kPartBytes + kTileBytes, 64);
  };
  auto multiply = [&]() __attribute__((always_inline)) {
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Across > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (Down > 1) _tile_dpbf16ps(2, 5, 6);
    if constexpr (Down > 1 && Across > 1) _tile_dpbf16ps(3, 5, 7);
  };
  fetch.begin_block();
  const std::int64_t rows_each = (kTall + blocks - 1) / blocks;
  std::int64_t asked = 0;
  auto ask = [&]() __attribute__((always_inline)) {
    for (std::int64_t end = asked + rows_each < kTall ? asked + rows_each : kTall; asked < end; ++asked) {
      __builtin_prefetch(next + asked * ldc, 1);
      __builtin_prefetch(next + asked * ldc + kTile, 1);
    }
    for (int i = 0; i < 4; ++i) fetch.one();
  };
  for (std::int64_t i = 0; i < bf16_blocks; ++i, a += kBlockBytes, b += kPartBytes) {
    ask();
    load_a(2), load_b(0), multiply();
    load_a(1), multiply();
    load_a(0), multiply();
  }
  for (std::int64_t i = bf16_blocks; i < blocks; ++i, a += kBlockBytes, b += kBlockBytes) {
    ask();
    load_a(2), load_b(0), multiply();
    load_a(1), multiply();
    load_b(1), multiply();
    load_a(0), multiply();
    load_b(2), multiply();
    load_b(0), multiply();
  }
  _tile_stored(0, c, row);
  if constexpr (Across > 1) _tile_stored(1, c + kTile, row);
  if constexpr (Down > 1) _tile_stored(2, c + kTile * ldc, row);
  if constexpr (Down > 1 && Across > 1) _tile_stored(3, c + kTile * ldc + kTile, row);
  memory_is_used();
}

DML_INLINE void tile_rows(std::int64_t rows, std::int64_t cols, std::int64_t blocks, std::int64_t bf16_blocks,
                          const char* a, const char* b, float* c, std::int64_t ldc, bool add, const float* next,
                          Fetch& fetch) {
  if (rows > kTile && cols > kTile) tile_block<2, 2>(blocks, bf16_blocks, a, b, c, ldc, add, next, fetch);
  else if (rows > kTile) tile_block<2, 1>(blocks, bf16_blocks, a, b, c, ldc, add, next, fetch);
  else if (cols > kTile) tile_block<1, 2>(blocks, bf16_blocks, a, b, c, ldc, add, next, fetch);
  else tile_block<1, 1>(blocks, bf16_blocks, a, b, c, ldc, add, next, fetch);
}

void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t bf16_depth, const float* a,
                 const float* b, float* c, std::int64_t ldc, bool add, Ahead ahead) {
  _tile_loadconfig(&kShapes);
  const std::int64_t blocks = depth / kBlockDepth, bf16_blocks = bf16_depth / kBlockDepth;
  const std::int64_t a_bytes = blocks * kBlockBytes, b_bytes = a_bytes - bf16_blocks * (kBlockBytes - kPartBytes);
  Fetch fetch(ahead, (m + kTall - 1) / kTall * ((n + kWide - 1) / kWide));
  for (std::int64_t i = 0; i < m; i += kTall)
    for (std::int64_t j = 0; j < n; j += kWide) {
      const std::int64_t rows = m - i < kTall ? m - i : kTall, cols = n - j < kWide ? n - j : kWide;
      const char* ap = reinterpret_cast<const char*>(a) + i / kTall * a_bytes;
      const char* bp = reinterpret_cast<const char*>(b) + j / kWide * b_bytes;
      float* to = c + i * ldc + j;
      const float* next = j + kWide < n ? to + kWide : c + (i + kTall) * ldc;
      if (rows % kTile == 0 && cols % kTile == 0) {
        tile_rows(rows, cols, blocks, bf16_blocks, ap, bp, to, ldc, add, next, fetch);
        continue;
      }
      alignas(64) float edge[kTall * kWide];
      const auto width = static_cast<std::size_t>(cols) * sizeof(float);
      for (std::int64_t r = 0; r < rows && add; ++r) __builtin_memcpy(edge + r * kWide, to + r * ldc, width);
      tile_rows(rows, cols, blocks, bf16_blocks, ap, bp, edge, kWide, add, next, fetch);
      for (std::int64_t r = 0; r < rows; ++r) __builtin_memcpy(to + r * ldc, edge + r * kWide, width);
    }
  _tile_release();
}

typedef std::uint16_t Halves __attribute__((vector_size(64)));
typedef std::uint16_t HalfOfHalves __attribute__((vector_size(32)));
typedef std::uint32_t Words __attribute__((vector_size(64)));

DML_INLINE V widened(HalfOfHalves x) { return reinterpret_cast<V>(__builtin_convertvector(x, Words) << 16); }

// The three parts of 32 values, 16 of `low` and 16 of `high`, each as 32 bf16.
struct Parts {
  Halves part[3];
};
DML_INLINE Parts parts_of(V low, V high) {
  Parts out;
#pragma GCC unroll 3
  for (int p = 0; p < 3; ++p) {
    out.part[p] =
        reinterpret_cast<Halves>(_mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low)));
    if (p == 2) break;
    HalfOfHalves half[2];
    __builtin_memcpy(half, &out.part[p], sizeof half);
    low -= widened(half[0]);
    high -= widened(half[1]);
  }
  return out;
}

DML_INLINE V load_some(const float* p, std::int64_t count) {
  if (count >= W) return load(p);
  if (count <= 0) return V{};
  return reinterpret_cast<V>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p));
}

DML_INLINE void store_parts(char* to, std::int64_t row, const Parts& x) {
#pragma GCC unroll 3
  for (int p = 0; p < 3; ++p)
    store(reinterpret_cast<float*>(to + p * kPartBytes + row * 64), reinterpret_cast<V>(x.part[p]));
}

// Element (r, k) of what is packed is from[r · ld + k], or from[k · ld + r] when turned.
struct Source {
  const float* from;
  std::int64_t ld, count, depth;
  // 16 values of row r from step k on, and of step k from row r on.
  DML_INLINE V along(std::int64_t r, std::int64_t k) const {
    return r < count ? load_some(from + r * ld + k, depth - k) : V{};
  }
  DML_INLINE V across(std::int64_t r, std::int64_t k) const {
    return k < depth ? load_some(from + k * ld + r, count - r) : V{};
  }
};

// Tiles of rows: 32 steps of one row after the other.
void pack_tall(bool turned, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld, float* packed) {
  const Source source{from, ld, count, depth};
  char* to = reinterpret_cast<char*>(packed);
  for (std::int64_t k = 0; k < depth; k += kBlockDepth, to += kBlockBytes)
    for (std::int64_t top = 0; top < kTall; top += kTile) {
      char* tile = to + top / kTile * kTileBytes;
      if (!turned) {
        for (std::int64_t r = top; r < top + kTile; ++r)
          store_parts(tile, r - top, parts_of(source.along(r, k), source.along(r, k + W)));
        continue;
      }
      V early[W], late[W];
      for (int i = 0; i < W; ++i) early[i] = source.across(top, k + i), late[i] = source.across(top, k + W + i);
      turn(early);
      turn(late);
      for (int r = 0; r < kTile; ++r) store_parts(tile, r, parts_of(early[r], late[r]));
    }
}

// Of two steps of 16 columns, one behind the other: the two of a column side by side.
constexpr Halves kPairs = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                           8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

// Tiles of pairs of steps: 16 columns of one pair after the other, the two steps of a column side by side.
void pack_wide(bool turned, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld, float* packed) {
  const Source source{from, ld, count, depth};
  char* to = reinterpret_cast<char*>(packed);
  for (std::int64_t k = 0; k < depth; k += kBlockDepth, to += kBlockBytes)
    for (std::int64_t left = 0; left < kWide; left += kTile) {
      char* tile = to + left / kTile * kTileBytes;
      if (turned) {
        for (int pair = 0; pair < kTile; ++pair) {
          Parts x = parts_of(source.across(left, k + 2 * pair), source.across(left, k + 2 * pair + 1));
          for (Halves& part : x.part) part = __builtin_shuffle(part, kPairs);
          store_parts(tile, pair, x);
        }
        continue;
      }
      V x[3][W];
      for (int c = 0; c < kTile; ++c) {
        Parts column = parts_of(source.along(left + c, k), source.along(left + c, k + W));
        for (int p = 0; p < 3; ++p) x[p][c] = reinterpret_cast<V>(column.part[p]);
      }
      for (int p = 0; p < 3; ++p) {
        turn(x[p]);
        for (int pair = 0; pair < kTile; ++pair)
          store(reinterpret_cast<float*>(tile + p * kPartBytes + pair * 64), x[p][pair]);
      }
    }
}

// 16 or 32 values in a row, as far as there are `some`.
template <class H>
DML_INLINE H load_halves(const bf16* p, std::int64_t some) {
  H x{};
  if (some >= static_cast<std::int64_t>(sizeof x / sizeof *p)) __builtin_memcpy(&x, p, sizeof x);
  else if (some > 0) __builtin_memcpy(&x, p, static_cast<std::size_t>(some) * sizeof *p);
  return x;
}

void pack_wide_bf16(bool turned, std::int64_t count, std::int64_t depth, const bf16* from, std::int64_t ld,
                    float* packed) {
  char* to = reinterpret_cast<char*>(packed);
  for (std::int64_t k = 0; k < depth; k += kBlockDepth, to += kPartBytes)
    for (std::int64_t left = 0; left < kWide; left += kTile) {
      auto* tile = reinterpret_cast<float*>(to + left / kTile * kTileBytes);
      if (turned) {
        const bf16* step = from + k * ld + left;
        for (int pair = 0; pair < kTile; ++pair, step += 2 * ld) {
          const std::int64_t steps = depth - k - 2 * pair;
          HalfOfHalves two[] = {load_halves<HalfOfHalves>(step, steps > 0 ? count - left : 0),
                                load_halves<HalfOfHalves>(step + ld, steps > 1 ? count - left : 0)};
          Halves both;
          __builtin_memcpy(&both, two, sizeof both);
          store(tile + pair * W, reinterpret_cast<V>(__builtin_shuffle(both, kPairs)));
        }
        continue;
      }
      V x[W];
      for (int c = 0; c < kTile; ++c)
        x[c] = reinterpret_cast<V>(load_halves<Halves>(from + (left + c) * ld + k, left + c < count ? depth - k : 0));
      turn(x);
      for (int pair = 0; pair < kTile; ++pair) store(tile + pair * W, x[pair]);
    }
}
