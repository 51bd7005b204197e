// Rows of stored weights as vectors of float32, for stored_products.inl.
//
// A kind of rows gives a row; a row gives blocks of 64 columns, a block its vectors in order: get(v), or four of them
// at a time, get(v, to). Kinds with scales for 256 columns have open(), which is called before the first block of
// those. kBytes256: bytes of 256 columns.

constexpr std::int64_t kBlockCols = 64;  // also the block of an NF4 scale
constexpr int kBlockVectors = static_cast<int>(kBlockCols / W);

struct StoredRows {
  const unsigned char* data;  // row 0, column 0
  const float* scales;
  std::int64_t cols;
  DML_INLINE const unsigned char* at(std::int64_t n, int bits) const { return data + ((n * cols * bits) >> 3); }
  /// The value of an element from its sum.
  float finish(std::int64_t /*row*/, float sum) const { return sum; }
  // The order of columns in the lanes of a vector: x is permuted to this order, sums are permuted back.
  DML_INLINE static V to_lanes(V x) { return x; }
  DML_INLINE static V from_lanes(V x) { return x; }
};

struct Float32Rows : StoredRows {
  static constexpr int kBits = 32, kBytes256 = 32 * kBits;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return load(reinterpret_cast<const float*>(p) + v * W); }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i * 4}; }
    void values(std::int64_t i, std::int64_t count, float* to) const {
      __builtin_memcpy(to, p + i * 4, static_cast<std::size_t>(count) * 4);
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
};

struct Bf16Rows : StoredRows {
  static constexpr int kBits = 16, kBytes256 = 32 * kBits;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const { return reinterpret_cast<V>(load_16_bit(p + 2 * v * W) << 16); }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i * 2}; }
    void values(std::int64_t i, std::int64_t count, float* to) const { from_bf16(p + i * 2, count, to); }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
};

struct F16Rows : StoredRows {
  static constexpr int kBits = 16, kBytes256 = 32 * kBits;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
#if DML_VECTOR_BYTES == 64
      return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 2 * v * W)));
#elif DML_VECTOR_BYTES == 32
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * v * W)));
#else
      V x;
      from_f16(p + 2 * v * W, W, reinterpret_cast<float*>(&x));
      return x;
#endif
    }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i * 2}; }
    void values(std::int64_t i, std::int64_t count, float* to) const { from_f16(p + i * 2, count, to); }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
};

struct Int8Rows : StoredRows {
  static constexpr int kBits = 8, kBytes256 = 32 * kBits;
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
      const unsigned char* from = p + v * W;
#if DML_VECTOR_BYTES == 64
      __m512i wide = _mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      return _mm512_maskz_cvtepi32_ps(0xffff, wide);
#elif DML_VECTOR_BYTES == 32
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
      V x;
      from_int8(from, W, 1, reinterpret_cast<float*>(&x));
      return x;
#endif
    }
  };
  struct Row {
    const unsigned char* p;
    DML_INLINE Block block(std::int64_t i) const { return {p + i}; }
    void values(std::int64_t i, std::int64_t count, float* to) const { from_int8(p + i, count, 1, to); }
  };
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits)}; }
  float finish(std::int64_t row, float sum) const { return scales[row] * sum; }
};

// Codes of four bits, two in a byte, which a table turns into values. Rows begin at a block: cols is a multiple of 64,
// without remainder.
struct NibbleRows : StoredRows {
  static constexpr int kBits = 4, kBytes256 = 32 * kBits;
#if DML_VECTOR_BYTES == 64
  // The 8 bytes of 16 codes are read into every pair of lanes and shifted, pair t by nibble t: lane 2t + h is column
  // 8h + t, and no byte has to be moved.
  DML_INLINE static V to_lanes(V x) {
    const __m512i column = _mm512_set_epi32(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
    return _mm512_maskz_permutexvar_ps(0xffff, column, x);
  }
  DML_INLINE static V from_lanes(V x) {
    const __m512i lane = _mm512_set_epi32(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_maskz_permutexvar_ps(0xffff, lane, x);
  }
#endif
#if DML_VECTOR_BYTES == 64
  // Vector v of a block whose first byte is *p. HighFirst: the even column is the high nibble.
  template <bool HighFirst>
  DML_INLINE static V looked_up(const unsigned char* p, int v, const Nf4Table& table) {
    constexpr int kEven = HighFirst ? 4 : 0, kOdd = 4 - kEven;
    const __m512i shift =
        _mm512_set_epi32(24 + kOdd, 24 + kOdd, 24 + kEven, 24 + kEven, 16 + kOdd, 16 + kOdd, 16 + kEven, 16 + kEven,
                         8 + kOdd, 8 + kOdd, 8 + kEven, 8 + kEven, kOdd, kOdd, kEven, kEven);
    long long bytes;
    __builtin_memcpy(&bytes, p + 8 * v, 8);
    const __m512i code = _mm512_maskz_srlv_epi32(0xffff, _mm512_set1_epi64(bytes), shift);
    return _mm512_maskz_permutexvar_ps(0xffff, code, table.part[0]);  // of an index it reads the last four bits
  }
#elif DML_VECTOR_BYTES == 32
  DML_INLINE static V to_lanes(V x) { return even_lanes_first(x); }
  DML_INLINE static V from_lanes(V x) { return in_order_of_columns(x); }
#endif
};

template <bool Rounded>
struct Nf4Rows : NibbleRows {
#if DML_VECTOR_BYTES == 64
  // The table times the block's scale stands in registers.
  struct Block {
    const unsigned char* p;
    Nf4Table table;
    DML_INLINE V get(int v) const { return looked_up<true>(p, v, table); }
  };
  struct Row {
    const unsigned char* p;
    const float* scales;
    DML_INLINE Block block(std::int64_t i) const { return {p + (i >> 1), nf4_table(scales[i >> 6], Rounded)}; }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
#elif DML_VECTOR_BYTES == 32
  struct Block {
    const unsigned char* p;
    Nf4Values<Rounded> values;
    DML_INLINE void get(int v, V (&to)[4]) const { values.get(p + 4 * v, to); }
  };
  struct Row {
    const unsigned char* p;
    const float* scales;
    DML_INLINE Block block(std::int64_t i) const { return {p + (i >> 1), Nf4Values<Rounded>(scales[i >> 6])}; }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
#else
  struct Block {
    float values[kBlockCols];
    DML_INLINE V get(int v) const { return load(values + v * W); }
  };
  struct Row {
    const unsigned char* p;
    const float* scales;
    DML_INLINE Block block(std::int64_t i) const {
      Block b;
      from_nf4(p, scales, Rounded, i, kBlockCols, b.values);
      return b;
    }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
#endif
  DML_INLINE Row row(std::int64_t n) const { return {at(n, kBits), scales + ((n * cols) >> 6)}; }
};

// Keeps x in a register, as a value that the compiler does not know: it would otherwise reload it for every product, or
// contract the product that it is.
DML_INLINE void keep(V& x) {
#if DML_VECTOR_BYTES == 64
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#endif
}
