// Attention on AMX tiles. What takes part in several products is split into its parts once: keys and values for up to
// kMaxRows queries, queries and the gradient of the output for a run of keys. Scores become the parts of
// probabilities, or of their gradient, in one pass over registers, and that pass is cut into small units which run
// between the products of the visit that comes next and of the one before: tiles and vectors work at the same time.
// In the precision of bf16 every value has one part. Everything goes by panels of 32 queries and 32 keys; where no
// query of a panel sees a key of the other there is no visit. The products are such that nothing just computed has to
// be transposed: attention_rows_amx.inl (forward) and attention_keys_amx.inl (backward) say which.

constexpr std::int64_t kPanel = 32, kPanelFloats = kPanel * kPanel;

DML_INLINE std::int64_t up_to_panels(std::int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }
// Of a packed panel of 32 rows.
template <int Parts>
DML_INLINE std::int64_t panel_bytes(std::int64_t depth) {
  return depth / kBlockDepth * Parts * kPartBytes;
}

// Rows of (rows, cols) as panels of depth cols; or transposed, its columns as panels of depth rows.
template <int Parts, class Pack>
void pack_panels(Pack pack, bool transposed, std::int64_t rows, std::int64_t cols, const float* from, std::int64_t ld,
                 char* to) {
  const std::int64_t count = transposed ? cols : rows, depth = transposed ? rows : cols;
  for (std::int64_t i = 0; i < count; i += kPanel, to += panel_bytes<Parts>(up_to_panels(depth)))
    pack(transposed, count - i < kPanel ? count - i : kPanel, depth, from + i * (transposed ? 1 : ld), ld,
         reinterpret_cast<float*>(to));
}

// Stores row i of a tile: the pairs of 16 columns. `first` and `second` have the values of the pair's two steps. Three
// parts are cut instead of rounded, which is quicker and exact enough for one factor of a product.
template <int Parts>
DML_INLINE void store_pairs(char* tile, std::int64_t i, V first, V second) {
  if constexpr (Parts == 3) {
    store_parts(tile, i, parts_of<true>(first, second));
  } else {
    store(reinterpret_cast<float*>(tile + i * 64),
          reinterpret_cast<V>(__builtin_shuffle(rounded(first, second), kPairs)));
  }
}
// Stores 32 steps of row `row` of a panel.
template <int Parts>
DML_INLINE void store_row(char* panel, std::int64_t row, V low, V high) {
  if constexpr (Parts == 3) store_parts(panel, row, parts_of<true>(low, high));
  else store(reinterpret_cast<float*>(panel + row * 64), reinterpret_cast<V>(rounded(low, high)));
}

// Prefetches the lines of the rows of N matrices, AtOnce of each at a time.
template <int N, int AtOnce>
class Rows {
 public:
  Rows() = default;
  Rows(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::array<const float*, N> first)
      : at_(first), rows_(rows), cols_(cols), ld_(ld) {}
  DML_INLINE void ask() {
    for (int i = 0; i < AtOnce && rows_ > 0; ++i) {
      for (const float* at : at_) __builtin_prefetch(at + col_, 0, 2);
      if ((col_ += 16) < cols_) continue;
      col_ = 0;
      --rows_;
      for (const float*& at : at_) at += ld_;
    }
  }

 private:
  std::array<const float*, N> at_{};
  std::int64_t rows_ = 0, cols_ = 0, ld_ = 0, col_ = 0;
};

// The lines to prefetch in a step. A block of the depth is one step in one part, six in three parts.
template <int Parts>
constexpr int kLinesOfStep = Parts == 1 ? 6 : 1;

// Work on vectors in `units` equal pieces, done by and by while tiles make `steps` steps; what is needed later is
// brought near.
template <class Near, class Unit>
class Beside {
 public:
  Beside(std::int64_t units, std::int64_t steps, Near& near, Unit unit)
      : unit_(unit), near_(near), units_(units), steps_(steps) {}
  DML_INLINE void operator()(int) {
    near_.ask();
    for (due_ += units_; due_ >= steps_ && done_ < units_; due_ -= steps_) unit_(done_++);
  }
  void rest() {
    while (done_ < units_) unit_(done_++);
    memory_is_used();
  }

 private:
  Unit unit_;
  Near& near_;
  std::int64_t units_, steps_, done_ = 0, due_ = 0;
};

// A block of 32 × 32: a panel of the first factor with one of the second.
template <int Parts>
struct Product {
  std::int64_t depth = 0;
  const char *a = nullptr, *b = nullptr;
  float* c = nullptr;
  bool add = false;

  std::int64_t steps() const { return depth / kBlockDepth * (Parts == 3 ? 6 : 1); }
  template <class Between>
  DML_INLINE void make(Between& between) const {
    tile_block<2, 2, Between&, Parts>(depth / kBlockDepth, 0, a, b, c, kPanel, add, between);
  }
};

// Which keys of a panel a query q of a panel sees: [low + q, high + q).
struct Sight {
  std::int32_t low, high;
  Sight(const AttentionShape& shape, std::int64_t query, std::int64_t key)
      : low(static_cast<std::int32_t>(shape.window > 0 ? query - key + 1 - shape.window : -(std::int64_t{1} << 30))),
        high(static_cast<std::int32_t>(query - key + 1)) {}
  DML_INLINE bool none() const { return high + kPanel <= 1 || low >= kPanel; }
  DML_INLINE bool whole() const { return high >= kPanel && low + kPanel <= 1; }
  // x where key − query is in sight, else `otherwise`.
  DML_INLINE V apply(VI distance, V x, V otherwise) const {
    return (distance >= low) & (distance < high) ? x : otherwise;
  }
};

// 2ʸ for y up to 127; 2⁻¹²⁶ below that. y = n + r with |r| ≤ ½. The relative error is below 1e-7, with one part 7.5e-5:
// what is multiplied then is rounded to 2⁻⁹.
template <int Parts = 3>
DML_INLINE V power_of_two(V y) {
  y = reinterpret_cast<V>(_mm512_maskz_max_ps(0xffff, _mm512_set1_ps(-126), reinterpret_cast<__m512>(y)));  // NaN stays
  V n = y + 12582912.f;  // 1.5·2²³: the sum's low bits are the rounded integer
  const VI power = reinterpret_cast<VI>(n) << 23;
  const V r = y - (n - 12582912.f);
  V p;
  if constexpr (Parts == 1) {
    p = all(0.0551716694f);
    p = p * r + 0.242611131f;
    p = p * r + 0.693260986f;
    p = p * r + 0.999928073f;
  } else {
    p = all(0.000155946778f);
    p = p * r + 0.00134066434f;
    p = p * r + 0.00961769279f;
    p = p * r + 0.0555031039f;
    p = p * r + 0.240226522f;
    p = p * r + 0.693147242f;
    p = p * r + 1.f;
  }
  return reinterpret_cast<V>(reinterpret_cast<VI>(p) + power);
}
constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

// Scores from products q · k, and what they are multiplied with to be exponents of two.
struct Scores {
  float scale, cap, unit;
  explicit Scores(const AttentionShape& shape)
      : scale(shape.scale), cap(shape.softcap), unit(cap > 0 ? kLog2e : scale * kLog2e) {}
  DML_INLINE V tanh_of(V x) const { return tanh(x * (scale / cap)); }
  DML_INLINE V of(V x) const { return cap > 0 ? cap * tanh_of(x) : x; }
};

// Of `count` panels in a row, the range of those that are in sight at all: sight_of(i) is the sight of panel i.
struct PanelRange {
  std::int64_t first = 0, last = 0;
  template <class SightOf>
  PanelRange(std::int64_t count, SightOf sight_of) : last(count) {
    while (first < last && sight_of(first).none()) ++first;
    while (first < last && sight_of(last - 1).none()) --last;
  }
  PanelRange() = default;
  bool empty() const { return first == last; }
  std::int64_t count() const { return last - first; }
};

// Consecutive pieces of this thread's scratch memory.
class Pieces {
 public:
  explicit Pieces(std::int64_t bytes) : at_(reinterpret_cast<char*>(thread_scratch(bytes / 4).data())) {}
  char* bytes(std::int64_t n) { return std::exchange(at_, at_ + n); }
  float* floats(std::int64_t n) { return reinterpret_cast<float*>(bytes(n * 4)); }

 private:
  char* at_;
};
