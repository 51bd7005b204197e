// Products of few rows with weights that tiles read where they are stored, without unpacking: 64 bytes of each of 32
// rows at a time.
//
// Tiles describes the tiles of x that are multiplied with those 64 bytes:
//   Sum        the type of the sums
//   kTwo       whether there are two, the second kSecondAt bytes behind the first
//   kWidth     bytes of a row of such a tile; also of a row of sums
//   kBytes     of the tiles for 64 bytes of the weights' rows
//   multiply_first(), multiply_second()  with the first and the second tile

// The sums of 32 rows of weights.
template <class Tiles>
struct StoredSums {
  alignas(64) typename Tiles::Sum part[Tiles::kTwo ? 2 : 1][kFewRows][Tiles::kWidth / 4];
};

// Each row is prefetched kAhead bytes before it is read. At the end of the rows these are bytes of the next 32 rows,
// which begin at `next`.
template <class Tiles>
void stored_sums(const char* w, std::int64_t row_bytes, std::int64_t rows, const char* x, const char* next,
                 StoredSums<Tiles>& sums) {
  constexpr std::int64_t kLine = 64, kAhead = 1024;  // bytes of a row
  alignas(64) char copy[kFewRows * kLine];
  _tile_zero(0);
  _tile_zero(2);
  if constexpr (Tiles::kTwo) {
    _tile_zero(1);
    _tile_zero(3);
  }
  for (std::int64_t at = 0; at < row_bytes; at += kLine, x += Tiles::kBytes) {
    const char* block = w + at;
    std::int64_t stride = row_bytes;
    if (const std::int64_t some = row_bytes - at; rows < kFewRows || some < kLine) {  // nothing is read beyond the end
      __builtin_memset(copy, 0, sizeof copy);
      for (std::int64_t r = 0; r < rows; ++r)
        __builtin_memcpy(copy + r * kLine, block + r * row_bytes,
                         static_cast<std::size_t>(some < kLine ? some : kLine));
      block = copy, stride = kLine;
    }
    const char* later = at + kAhead < row_bytes ? w + at + kAhead : next + (at + kAhead - row_bytes);
    for (int i = 0; i < kFewRows; ++i, later += row_bytes) __builtin_prefetch(later, 0, 2);
    memory_is_used();
    _tile_loadd(4, block, stride);
    _tile_loadd(5, block + kTile * stride, stride);
    _tile_loadd(6, x, Tiles::kWidth);
    Tiles::multiply_first();
    if constexpr (Tiles::kTwo) {
      _tile_loadd(7, x + Tiles::kSecondAt, Tiles::kWidth);
      Tiles::multiply_second();
    }
  }
  memory_is_used();
  _tile_stored(0, sums.part[0][0], Tiles::kWidth);
  _tile_stored(2, sums.part[0][kTile], Tiles::kWidth);
  if constexpr (Tiles::kTwo) {
    _tile_stored(1, sums.part[1][0], Tiles::kWidth);
    _tile_stored(3, sums.part[1][kTile], Tiles::kWidth);
  }
  memory_is_used();
}

// put(sums, first, rows) takes the sums of `rows` ≤ 32 rows from `first` on.
template <class Tiles, class Put>
void stored_panel(const char* w, std::int64_t row_bytes, std::int64_t count, const char* x, Put put) {
  const std::int64_t piece = kFewRows * row_bytes;
  _tile_loadconfig(&Tiles::kShapes);
  for (std::int64_t first = 0; first < count; first += kFewRows, w += piece) {
    const std::int64_t left = count - first, rows = left < kFewRows ? left : kFewRows;
    StoredSums<Tiles> sums;
    stored_sums<Tiles>(w, row_bytes, rows, x, left > kFewRows ? w + piece : w, sums);
    put(sums, first, rows);
  }
  _tile_release();
}
