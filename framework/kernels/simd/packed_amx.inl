// The register block of the large products on AMX tiles, in float32 precision: a float32 is the sum of three bf16, x =
// x₁ + x₂ + x₃ with |x₂| ≤ 2⁻⁹|x| and |x₃| ≤ 2⁻¹⁸|x|, so six products of parts give x · y but for a relative 2⁻²⁶ (the
// decomposition of Henry, Tang and Heinecke, 2019). Products of bf16 are exact in float32, where the tiles add them up.
//
// A panel of 32 rows lies in blocks of 32 steps of the depth: x₁ of both tiles, x₂, x₃. Values that are bf16 to begin
// with have x₁ alone, and take three products. A tile multiplies pairs of steps that lie side by side: steps i and 16 +
// i of a block, so that two vectors make pairs without changing places. A tile is 16 rows of 16 pairs; of the second
// factor 16 pairs of 16 columns each.

constexpr int kTile = 16, kBlockDepth = 32;
constexpr std::int64_t kMr = 2 * kTile, kNr = 2 * kTile;
constexpr std::int64_t kLinesAtOnce = 4;  // prefetched in a block of the depth
constexpr std::int64_t kTileBytes = 1024, kPartBytes = 2 * kTileBytes, kBlockBytes = 3 * kPartBytes;
// Where the precision of bf16 is asked for, all values have one part: themselves, rounded. `Parts` is 3 or 1 below.

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

// Sums of Down × Across tiles, in tiles 0 to 3; small terms first. `between` is called before every Down × Across
// products: with 0 before those that begin a block of the depth.
template <int Down, int Across, class Between, int Parts = 3>
void tile_block(std::int64_t blocks, std::int64_t bf16_blocks, const char* a, const char* b, float* c, std::int64_t ldc,
                bool add, Between between) {
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
  if constexpr (Parts == 1) bf16_blocks = blocks;
  for (std::int64_t i = 0; Parts == 1 && i < blocks; ++i, a += kPartBytes, b += kPartBytes)
    between(0), load_a(0), load_b(0), multiply();
  for (std::int64_t i = 0; Parts == 3 && i < bf16_blocks; ++i, a += kBlockBytes, b += kPartBytes) {
    between(0), load_a(2), load_b(0), multiply();
    between(1), load_a(1), multiply();
    between(2), load_a(0), multiply();
  }
  for (std::int64_t i = bf16_blocks; i < blocks; ++i, a += kBlockBytes, b += kBlockBytes) {
    between(0), load_a(2), load_b(0), multiply();
    between(1), load_a(1), multiply();
    between(2), load_b(1), multiply();
    between(3), load_a(0), multiply();
    between(4), load_b(2), multiply();
    between(5), load_b(0), multiply();
  }
  _tile_stored(0, c, row);
  if constexpr (Across > 1) _tile_stored(1, c + kTile, row);
  if constexpr (Down > 1) _tile_stored(2, c + kTile * ldc, row);
  if constexpr (Down > 1 && Across > 1) _tile_stored(3, c + kTile * ldc + kTile, row);
  memory_is_used();
}

// `next`: the next block of the result, prefetched meanwhile.
template <int Parts>
DML_INLINE void tile_rows(std::int64_t rows, std::int64_t cols, std::int64_t blocks, std::int64_t bf16_blocks,
                          const char* a, const char* b, float* c, std::int64_t ldc, bool add, const float* next,
                          Fetch& fetch) {
  fetch.begin_block();
  const std::int64_t rows_each = (kMr + blocks - 1) / blocks;
  std::int64_t asked = 0;
  auto ask = [&](int step) __attribute__((always_inline)) {
    if (step > 0) return;
    for (std::int64_t end = asked + rows_each < kMr ? asked + rows_each : kMr; asked < end; ++asked) {
      __builtin_prefetch(next + asked * ldc, 1);
      __builtin_prefetch(next + asked * ldc + kTile, 1);
    }
    fetch.some();
  };
  if (rows > kTile && cols > kTile)
    tile_block<2, 2, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
  else if (rows > kTile) tile_block<2, 1, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
  else if (cols > kTile) tile_block<1, 2, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
  else tile_block<1, 1, decltype(ask)&, Parts>(blocks, bf16_blocks, a, b, c, ldc, add, ask);
}

template <int Parts>
void packed_gemm(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t bf16_depth, const float* a,
                 const float* b, float* c, std::int64_t ldc, bool add, PrefetchRange ahead) {
  _tile_loadconfig(&kShapes);
  const std::int64_t blocks = depth / kBlockDepth, bf16_blocks = bf16_depth / kBlockDepth;
  const std::int64_t a_bytes = blocks * Parts * kPartBytes, b_bytes = a_bytes - bf16_blocks * (Parts - 1) * kPartBytes;
  Fetch fetch(ahead, (m + kMr - 1) / kMr * ((n + kNr - 1) / kNr), kLinesAtOnce);
  for (std::int64_t i = 0; i < m; i += kMr)
    for (std::int64_t j = 0; j < n; j += kNr) {
      const std::int64_t rows = m - i < kMr ? m - i : kMr, cols = n - j < kNr ? n - j : kNr;
      const char* ap = reinterpret_cast<const char*>(a) + i / kMr * a_bytes;
      const char* bp = reinterpret_cast<const char*>(b) + j / kNr * b_bytes;
      float* to = c + i * ldc + j;
      const float* next = j + kNr < n ? to + kNr : c + (i + kMr) * ldc;
      if (rows % kTile == 0 && cols % kTile == 0) {
        tile_rows<Parts>(rows, cols, blocks, bf16_blocks, ap, bp, to, ldc, add, next, fetch);
        continue;
      }
      alignas(64) float edge[kMr * kNr];
      const auto width = static_cast<std::size_t>(cols) * sizeof(float);
      for (std::int64_t r = 0; r < rows && add; ++r) __builtin_memcpy(edge + r * kNr, to + r * ldc, width);
      tile_rows<Parts>(rows, cols, blocks, bf16_blocks, ap, bp, edge, kNr, add, next, fetch);
      for (std::int64_t r = 0; r < rows; ++r) __builtin_memcpy(to + r * ldc, edge + r * kNr, width);
    }
  _tile_release();
}

// The three parts of 32 values, each as 16 pairs of bf16: of `first` and of `second`. Rounded to eight digits, ties
// away from zero, a value leaves a rest that float32 holds exactly, and the rest of that rest has no more than eight
// digits. So it is when digits are cut off instead, which is quicker; where one of two factors is cut, products are off
// by 2⁻²⁵.
struct ThreeParts {
  VU16 part[3];
};
template <bool Cut = false>
DML_INLINE ThreeParts parts_of(V first, V second) {
  ThreeParts out;
#pragma GCC unroll 3
  for (int p = 0; p < 3; ++p) {
    auto a = reinterpret_cast<Words>(first), b = reinterpret_cast<Words>(second);
    if (p < 2) {
      a = (Cut ? a : a + 0x8000) & 0xffff0000;
      b = (Cut ? b : b + 0x8000) & 0xffff0000;
      first -= reinterpret_cast<V>(a);
      second -= reinterpret_cast<V>(b);
    }
    out.part[p] = reinterpret_cast<VU16>((a >> 16) | (b & 0xffff0000));
  }
  return out;
}

DML_INLINE void store_parts(char* to, std::int64_t row, const ThreeParts& x) {
#pragma GCC unroll 3
  for (int p = 0; p < 3; ++p)
    store(reinterpret_cast<float*>(to + p * kPartBytes + row * 64), reinterpret_cast<V>(x.part[p]));
}

// Row `row` of a tile: pairs of the values of `first` and of `second`, in so many parts.
template <int Parts>
DML_INLINE void store_pairs(char* to, std::int64_t row, V first, V second) {
  if constexpr (Parts == 3) {
    store_parts(to, row, parts_of(first, second));
  } else {
    const auto both =
        reinterpret_cast<VU16>(_mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second), reinterpret_cast<__m512>(first)));
    store(reinterpret_cast<float*>(to + row * 64), reinterpret_cast<V>(__builtin_shuffle(both, kPairs)));
  }
}

// The two vectors of 16 values from which pair i of a tile is made: of row i of the tile, steps 0 to 15 and 16 to 31 of
// a block; or, of a factor that lies transposed, of steps i and 16 + i, the tile's 16 rows.
template <bool Turned>
struct Source {
  const float* from;
  std::int64_t ld, count, depth;  // rows and steps that there are from here on

  DML_INLINE bool whole() const { return count >= kTile && depth >= kBlockDepth; }
  template <bool Whole>
  DML_INLINE V get(int i, int late) const {
    const float* at = Turned ? from + (i + late * kTile) * ld : from + i * ld + late * W;
    if (Whole) return load(at);
    const std::int64_t some = Turned ? count : depth - late * W;
    return (Turned ? i + late * kTile < depth : i < count) ? load_some(at, some) : V{};
  }
};

// A tile of 16 rows of 16 pairs, or of 16 pairs of 16 columns: which of the two lies in the source's vectors need not
// be transposed.
template <int Parts, bool Turn, bool Whole, class From>
void pack_tile(const From& from, char* tile) {
  if constexpr (!Turn) {
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i)
      store_pairs<Parts>(tile, i, from.template get<Whole>(i, 0), from.template get<Whole>(i, 1));
  } else {
    V early[W], late[W];
    for (int i = 0; i < W; ++i) early[i] = from.template get<Whole>(i, 0), late[i] = from.template get<Whole>(i, 1);
    turn(early);
    turn(late);
    for (int i = 0; i < W; ++i) store_pairs<Parts>(tile, i, early[i], late[i]);
  }
}

template <int Parts, bool Turned, bool Turn>
void pack_blocks(std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld, float* packed) {
  char* tile = reinterpret_cast<char*>(packed);
  for (std::int64_t k = 0; k < depth; k += kBlockDepth, tile += (Parts - 1) * kPartBytes)
    for (std::int64_t r = 0; r < kMr; r += kTile, tile += kTileBytes) {
      const Source<Turned> source{from + (Turned ? k * ld + r : r * ld + k), ld, count - r, depth - k};
      if (source.whole()) pack_tile<Parts, Turn, true>(source, tile);
      else pack_tile<Parts, Turn, false>(source, tile);
    }
}

// Tiles of rows.
template <int Parts>
void pack_a(bool transposed, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld,
            float* packed) {
  if (transposed) pack_blocks<Parts, true, true>(count, depth, from, ld, packed);
  else pack_blocks<Parts, false, false>(count, depth, from, ld, packed);
}

// Tiles of pairs of steps.
template <int Parts>
void pack_b(bool transposed, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld,
            float* packed) {
  if (transposed) pack_blocks<Parts, true, false>(count, depth, from, ld, packed);
  else pack_blocks<Parts, false, true>(count, depth, from, ld, packed);
}

void pack_b_bf16(bool transposed, std::int64_t count, std::int64_t depth, const bf16* from, std::int64_t ld,
                 float* packed) {
  char* to = reinterpret_cast<char*>(packed);
  for (std::int64_t k = 0; k < depth; k += kBlockDepth, to += kPartBytes)
    for (std::int64_t left = 0; left < kNr; left += kTile) {
      auto* tile = reinterpret_cast<float*>(to + left / kTile * kTileBytes);
      if (transposed) {
        const bf16* step = from + k * ld + left;
        for (int pair = 0; pair < kTile; ++pair, step += ld) {
          const std::int64_t steps = depth - k - pair;
          HalfVU16 two[] = {load_16_bit<HalfVU16>(step, steps > 0 ? count - left : 0),
                            load_16_bit<HalfVU16>(step + kTile * ld, steps > kTile ? count - left : 0)};
          VU16 both;
          __builtin_memcpy(&both, two, sizeof both);
          store(tile + pair * W, reinterpret_cast<V>(__builtin_shuffle(both, kPairs)));
        }
        continue;
      }
      V x[W];
      for (int c = 0; c < kTile; ++c)
        x[c] = reinterpret_cast<V>(
            __builtin_shuffle(load_16_bit<VU16>(from + (left + c) * ld + k, left + c < count ? depth - k : 0), kPairs));
      turn(x);
      for (int pair = 0; pair < kTile; ++pair) store(tile + pair * W, x[pair]);
    }
}
