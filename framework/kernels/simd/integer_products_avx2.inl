// Products of few rows (decoding) with quantized weights in the precision of bf16, for AVX2. Of every 256 columns a row
// of x becomes 16-bit integers under one scale, each within 2⁻¹⁶ of the largest value (bf16: within 2⁻⁹ of itself).
// Codes of weights are integers already. Their products and the sums of these are exact; sums of blocks are float32,
// one chain for every element. vpmaddwd multiplies 16 integers where vfmadd231ps multiplies 8 values, and codes take
// fewer instructions to read as integers than as float32.

constexpr std::int64_t kScaledCols = kPartsOf256 * kPartCols;  // of x under one scale

DML_INLINE V floats_of(__m256i x) { return reinterpret_cast<V>(_mm256_cvtepi32_ps(x)); }

// The value of 1 under which `cols` values are integers of 16 bits; NaN where one is not finite.
DML_INLINE float unit_of(const float* x, std::int64_t cols) {
  __m256i most{};  // without their signs, floats are ordered as integers are
  for (std::int64_t i = 0; i < cols; i += W)
    most = _mm256_max_epi32(most, _mm256_and_si256(load_bytes(x + i), _mm256_set1_epi32(0x7fffffff)));
  const auto bits = reinterpret_cast<VI>(most);
  std::int32_t largest_bits = 0;
  for (int i = 0; i < W; ++i) largest_bits = bits[i] > largest_bits ? bits[i] : largest_bits;
  return largest_bits < 0x7f800000 ? std::bit_cast<float>(largest_bits) / 32767 : __builtin_nanf("");
}

// The integers of 32 columns in the order of Codes. Returns eight partial sums.
template <bool EvenFirst>
DML_INLINE V put_part(const float* x, float factor, __m256i* to) {
  __m256i value[4];
  V sums{};
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    value[v] = _mm256_cvtps_epi32(reinterpret_cast<__m256>(load(x + v * W) * factor));
    sums += floats_of(value[v]);
  }
  auto columns = [&](int v, auto which) __attribute__((always_inline)) {  // even or odd ones of two vectors
    const __m256 a = _mm256_castsi256_ps(value[v]), b = _mm256_castsi256_ps(value[v + 1]);
    return _mm256_castps_si256(_mm256_shuffle_ps(a, b, which.value));
  };
  auto put = [&](__m256i a, __m256i b) __attribute__((always_inline)) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_store_si256(to++, _mm256_permutevar8x32_epi32(_mm256_packs_epi32(a, b), order));
  };
  constexpr std::integral_constant<int, 0x88> kEven;
  constexpr std::integral_constant<int, 0xdd> kOdd;
  if constexpr (EvenFirst) {
    put(columns(0, kEven), columns(2, kEven));
    put(columns(0, kOdd), columns(2, kOdd));
  } else {
    put(columns(0, kEven), columns(0, kOdd));
    put(columns(2, kEven), columns(2, kOdd));
  }
  return sums;
}

// m ≤ M rows of x, and M − m of zeros, in the order of use.
template <class Kind, int M>
struct IntegerRows {
  static constexpr std::int64_t kPartFloats = M * kPartCols / 2, kSumFloats = Kind::kMins ? M * W : 0;
  float* parts;  // of every 32 columns: two vectors of each row
  float* sums;   // with kMins, of every kSumParts parts: a vector of each row
  float* units;  // of every 256 columns: one of each row

  IntegerRows(const float* x, std::int64_t m, std::int64_t ldx, std::int64_t cols, float* room)
      : parts(room), sums(parts + cols / kPartCols * kPartFloats), units(sums + cols / kPartCols * kSumFloats) {
    for (std::int64_t col = 0; col < cols; col += kScaledCols)
      for (std::int64_t r = 0; r < M; ++r)
        put(r < m ? x + r * ldx + col : nullptr, r, col, cols - col < kScaledCols ? cols - col : kScaledCols);
  }
  void put(const float* x, std::int64_t r, std::int64_t col, std::int64_t cols) const {
    const float unit = x ? unit_of(x, cols) : 0, factor = unit > 1e-30f ? 1 / unit : 0;
    units[col / kScaledCols * M + r] = unit;
    V of_parts{};
    for (std::int64_t i = 0; i < cols / kPartCols; ++i) {
      const std::int64_t part = col / kPartCols + i;
      auto* to = reinterpret_cast<__m256i*>(parts + part * kPartFloats) + 2 * r;
      V own{};
      if (x) own = put_part<Kind::kEvenFirst>(x + i * kPartCols, factor, to);
      else to[0] = to[1] = __m256i{};
      if constexpr (Kind::kMins) {
        if (Kind::kSumParts == 1) of_parts = own;
        else of_parts[i] = sum(own);
        if ((i + 1) % Kind::kSumParts == 0) store(sums + part / Kind::kSumParts * kSumFloats + r * W, of_parts);
      }
    }
  }
};

// acc (N,M) += the products of columns [begin, end) of N rows of w with M rows of x. What is read next is prefetched.
template <class Kind, int M, int N, std::size_t... I>
void add_columns(const Weight& w, std::int64_t row, std::int64_t begin, std::int64_t end, const IntegerRows<Kind, M>& x,
                 const unsigned char* next, V* acc, std::index_sequence<I...>) {
  constexpr std::int64_t kSumParts = Kind::kSumParts;
  auto* integers = reinterpret_cast<const __m256i*>(x.parts + begin / kPartCols * x.kPartFloats);
  const float* sums = x.sums + begin / kPartCols / kSumParts * x.kSumFloats;
  // A little at a time: many requests at once would hold up those of x.
  constexpr int kBytesOfTwoParts = N * Kind::kBytes256 / 4;
  auto prefetch = [&](std::int64_t part) __attribute__((always_inline)) {
    if (part % 2 != 0) return;
    for (int line = 0; line < kBytesOfTwoParts; line += 64) __builtin_prefetch(next + line, 0, 2);
    next += kBytesOfTwoParts;
  };
  for (std::int64_t col = begin; col < end; col += kScaledCols) {
    const Kind weights[N] = {Kind(w, row + static_cast<std::int64_t>(I), col)...};
    V total[N][M] = {};
    const std::int64_t left = (end - col) / kPartCols, parts = left < kPartsOf256 ? left : kPartsOf256;
    for (std::int64_t first = 0; first < parts; first += kSumParts, sums += x.kSumFloats) {
      __m256i products[N][M] = {};
#pragma GCC unroll 8
      for (int i = 0; i < kSumParts; ++i, integers += 2 * M) {
        prefetch(first + i);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) {
          const Codes codes = weights[n].codes(first, i);
#pragma GCC unroll 8
          for (int r = 0; r < M; ++r) {
            __m256i& to = products[n][r];
            to = _mm256_add_epi32(to, _mm256_madd_epi16(codes.first, integers[2 * r]));
            to = _mm256_add_epi32(to, _mm256_madd_epi16(codes.second, integers[2 * r + 1]));
            // It stays in its register: the compiler would add up all products in the end.
            if constexpr (kSumParts > 1) asm("" : "+x"(to));
          }
        }
      }
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        const V scale = weights[n].scale(first);
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r) total[n][r] = multiply_add(total[n][r], floats_of(products[n][r]), scale);
        if constexpr (Kind::kMins) {
          const V least = weights[n].min(first);
#pragma GCC unroll 8
          for (int r = 0; r < M; ++r) total[n][r] = multiply_add(total[n][r], least, load(sums + r * W));
        }
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        const V unit = all(x.units[col / kScaledCols * M + r]);
        acc[n * M + r] = multiply_add(acc[n * M + r], total[n][r], unit);
      }
  }
}

// c (m,count) = or += x (m ≤ M rows) · (rows of w from `begin` on)ᵀ. Few rows of x are read from end to end for every N
// rows of w, which come in the order of memory: one stream is read faster than N. More rows of x are read in ranges of
// columns that fit into the first-level cache, each for a group of rows of w.
template <class Kind, int M>
void integer_panel(const Weight& w, std::int64_t begin, std::int64_t count, std::int64_t m, const float* x,
                   std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  constexpr bool kRanges = M > 2;
  constexpr std::int64_t N = kRanges ? 1 : 4 / M, kGroup = kRanges ? 16 : N, kRange = 2 * kScaledCols;
  const IntegerRows<Kind, M> integers(x, m, ldx, w.cols, room);
  const std::int64_t range = kRanges ? kRange : w.cols;
  for (std::int64_t n = 0; n < count;) {
    const std::int64_t some = count - n >= kGroup ? kGroup : kRanges ? count - n : 1;
    V acc[kGroup * M] = {};
    for (std::int64_t col = 0; col < w.cols; col += range) {
      const std::int64_t end = w.cols - col < range ? w.cols : col + range;
      for (std::int64_t i = 0; i < some;) {
        // These rows' next columns, or the rows of the next group.
        const std::int64_t row = begin + n + i;
        const unsigned char* next = end < w.cols ? Kind::place(w, row, end) : Kind::place(w, row + some, 0);
        const bool together = some - i >= N;
        auto add_rows = [&]<std::size_t... I>(std::index_sequence<I...> rows) {
          add_columns<Kind, M, sizeof...(I)>(w, row, col, end, integers, next, acc + i * M, rows);
        };
        if (together) add_rows(std::make_index_sequence<N>{});
        else add_rows(std::make_index_sequence<1>{});
        i += together ? N : 1;
      }
    }
    for (std::int64_t i = 0; i < some; ++i)
      for (std::int64_t r = 0; r < m; ++r) {
        float& to = c[r * ldc + n + i];
        to = add ? to + sum(acc[i * M + r]) : sum(acc[i * M + r]);
      }
    n += some;
  }
}

using FewRows = decltype(Loops::few_rows);

template <class Kind>
void few_integer_rows(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                      std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  if (m == 1) integer_panel<Kind, 1>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m == 2) integer_panel<Kind, 2>(w, first, count, m, x, ldx, c, ldc, add, room);
  else if (m <= 4) integer_panel<Kind, 4>(w, first, count, m, x, ldx, c, ldc, add, room);
  else integer_panel<Kind, 8>(w, first, count, m, x, ldx, c, ldc, add, room);
}

// Null for weights whose products are those of float32.
FewRows integer_product(const Weight& w) {
  if (w.cols % kPartCols != 0) return nullptr;
  switch (w.dtype) {
    case DType::int8:
      return w.cols % kScaledCols == 0 ? few_integer_rows<Int8Parts<8>> : few_integer_rows<Int8Parts<1>>;
    case DType::nf4:
      return w.cols % kNf4Block == 0 ? few_integer_rows<Nf4Parts> : nullptr;
    case DType::mxfp4:
      return few_integer_rows<Mxfp4Parts>;
    case DType::q4_0:
      return few_integer_rows<SmallParts<4, false>>;
    case DType::q4_1:
      return few_integer_rows<SmallParts<4, true>>;
    case DType::q5_0:
      return few_integer_rows<SmallParts<5, false>>;
    case DType::q5_1:
      return few_integer_rows<SmallParts<5, true>>;
    case DType::q8_0:
      return few_integer_rows<Q8_0Parts>;
    case DType::q4_k:
      return few_integer_rows<KBlock<4>>;
    case DType::q5_k:
      return few_integer_rows<KBlock<5>>;
    case DType::q6_k:
      return few_integer_rows<Q6KBlock>;
    case DType::iq4_nl:
      return few_integer_rows<Iq4NlParts>;
    case DType::iq4_xs:
      return few_integer_rows<Iq4XsBlock>;
    default:
      return nullptr;
  }
}

bool reads_as_integers_or_stored(const Weight& w) { return integer_product(w) || reads_as_stored(w); }

void few_rows_in_bf16(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                      std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  const FewRows product = integer_product(w);
  (product ? product : few_rows)(w, first, count, m, x, ldx, c, ldc, add, room);
}
