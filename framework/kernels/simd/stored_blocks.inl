// Rows of mxfp4 and of ggml's blocks of 32 values, for stored_products.inl (kernels/quant_ggml.cpp says what their
// bytes are). A value has the same bits on every processor. 16 values of four bits are a table, where a vector holds
// it.
#if DML_VECTOR_BYTES >= 32

DML_INLINE float half_at(const unsigned char* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return _cvtsh_ss(bits);
}
// half_at(p) in every lane. AVX-512 broadcasts the half and then widens it: the other way round takes longer.
DML_INLINE V halves_at(const unsigned char* p) {
#if DML_VECTOR_BYTES == 64
  std::int16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return reinterpret_cast<V>(_mm512_maskz_cvtph_ps(0xffff, _mm256_set1_epi16(bits)));
#else
  return all(half_at(p));
#endif
}
// W bytes.
DML_INLINE VI unsigned_bytes(const unsigned char* p) {
#if DML_VECTOR_BYTES == 64
  return reinterpret_cast<VI>(_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  return reinterpret_cast<VI>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
}
DML_INLINE VI signed_bytes(const unsigned char* p) {
#if DML_VECTOR_BYTES == 64
  return reinterpret_cast<VI>(_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  return reinterpret_cast<VI>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
}
DML_INLINE V floats(VI x) { return __builtin_convertvector(x, V); }
#if DML_VECTOR_BYTES == 64
// Of every index the last four bits count.
DML_INLINE V looked_up(VI index, V table) {
  return reinterpret_cast<V>(
      _mm512_maskz_permutexvar_ps(0xffff, reinterpret_cast<__m512i>(index), reinterpret_cast<__m512>(table)));
}
#endif

constexpr int kPart = 32 / W;  // vectors of 32 columns

// 2^(code − 127).
DML_INLINE float power_of_two(std::uint32_t code) {
  return std::bit_cast<float>(code == 0 ? std::uint32_t{0x400000} : code << 23);
}

struct Mxfp4Rows : NibbleRows {
  const std::uint8_t* powers;
  std::int64_t row_step;
  struct Block {
    const unsigned char* p;
    const std::uint8_t* powers;
    DML_INLINE float scale(int v) const { return power_of_two(powers[v / kPart]); }
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      return looked_up<false>(p, v, Nf4Table{{ load(kMxfp4Values) * scale(v) }});
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      static constexpr ByteTables kTables(kMxfp4Values);  // the lower two bytes of all values are zero
      const __m256i codes = even_and_odd_codes<false>(sixteen_bytes(p + 4 * v)), zero = _mm256_setzero_si256();
      join_bytes(zero, zero, kTables.look_up(2, codes), kTables.look_up(3, codes), to);
#pragma GCC unroll 4
      for (V& x : to) x *= scale(v);
    }
#endif
  };
  struct Row {
    const unsigned char* p;
    const std::uint8_t* powers;
    DML_INLINE Block block(std::int64_t i) const { return {p + (i >> 1), powers + i / kMxfp4Block}; }
    void values(std::int64_t, std::int64_t, float*) const {}
  };
  DML_INLINE Row row(std::int64_t n) const {
    return {at(n * row_step, kBits), powers + n * row_step * cols / kMxfp4Block};
  }
};

struct BlockRow {
  const unsigned char* p;
  void values(std::int64_t, std::int64_t, float*) const {}  // rows consist of whole blocks
};
template <int Bytes, int Columns>
struct BlockRows : StoredRows {
  static constexpr int kBytes = Bytes, kBytes256 = Bytes * 256 / Columns;
  DML_INLINE const unsigned char* begin(std::int64_t n) const { return data + n * (cols / Columns * Bytes); }
};

struct Q8_0Rows : BlockRows<34, 32> {
  struct Block {
    const unsigned char* p;
    DML_INLINE V get(int v) const {
      const unsigned char* at = p + v / kPart * kBytes;
      return floats(signed_bytes(at + 2 + v % kPart * W)) * halves_at(at);
    }
  };
  struct Row : BlockRow {
    DML_INLINE Block block(std::int64_t i) const { return {p + i / 32 * kBytes}; }
  };
  DML_INLINE Row row(std::int64_t n) const { return {begin(n)}; }
};

// Codes of four bits: of 32 columns, low nibbles are the first 16.
#if DML_VECTOR_BYTES == 64
DML_INLINE V iq4_values() { return floats(signed_bytes(reinterpret_cast<const unsigned char*>(kIq4Values))); }
// Vector v of a part of 32 columns, of values in a table.
DML_INLINE V looked_up(const unsigned char* codes, int v, V table) {
  const VI bytes = unsigned_bytes(codes);
  return looked_up(v % kPart == 0 ? bytes : bytes >> 4, table);
}
#else
// A byte for each of 32 columns, in their order.
DML_INLINE __m256i codes_of_part(const unsigned char* p) { return even_and_odd_codes<false>(sixteen_bytes(p)); }
DML_INLINE __m256i iq4_values(__m256i codes) { return _mm256_shuffle_epi8(sixteen_bytes(kIq4Values), codes); }
// to = scale times value(codes), signed bytes, for 32 columns. Each register has 16 columns in both of its halves;
// with 32 different columns in a register, bytes would have to cross the halves first.
template <class F>
DML_INLINE void scaled_values(const unsigned char* codes, F value, float scale, V (&to)[4]) {
  const __m256i bytes = sixteen_bytes(codes);
  const __m256i low = value(low_bits(bytes, 15)), high = value(low_bits(_mm256_srli_epi16(bytes, 4), 15));
  to[0] = signed_bytes_of<0, 4>(low), to[1] = signed_bytes_of<8, 12>(low);
  to[2] = signed_bytes_of<0, 4>(high), to[3] = signed_bytes_of<8, 12>(high);
#pragma GCC unroll 4
  for (V& x : to) x *= scale * kSignedByteScale;
}
#endif

// q4_0, q4_1, q5_0 and q5_1. Products of codes and scales are exact.
template <int Bits, bool Mins>
struct SmallRows : BlockRows<(Mins ? 4 : 2) + (Bits == 5 ? 4 : 0) + 16, 32> {
  static constexpr int kFront = Mins ? 4 : 2, kCodes = SmallRows::kBytes - 16, kZero = Mins ? 0 : 1 << (Bits - 1);
  struct Block {
    const unsigned char* p;
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      const unsigned char* at = p + v / kPart * SmallRows::kBytes;
      auto value = [&](VI codes) __attribute__((always_inline)) {
        const V product = floats(codes - kZero) * halves_at(at);
        return Mins ? product + halves_at(at + 2) : product;
      };
      if constexpr (Bits == 4) return looked_up(at + kCodes, v, value(lane_numbers()));
      const VI bytes = unsigned_bytes(at + kCodes), codes = v % kPart == 0 ? bytes & 15 : bytes >> 4;
      std::uint32_t fifths;
      __builtin_memcpy(&fifths, at + kFront, sizeof fifths);
      const VU own = (fifths - VU{}) >> reinterpret_cast<VU>(lane_numbers() + 16 * (v % kPart)) & 1;
      return value(codes | reinterpret_cast<VI>(own << 4));
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      const unsigned char* at = p + v / kPart * SmallRows::kBytes;
      auto value = [](__m256i code) __attribute__((always_inline)) {
        return Mins ? code : _mm256_sub_epi8(code, _mm256_set1_epi8(kZero));
      };
      if constexpr (Bits == 4) {
        scaled_values(at + kCodes, value, half_at(at), to);
      } else {
        signed_bytes_in_order(value(_mm256_or_si256(codes_of_part(at + kCodes), fifth_bits(at + kFront))), to);
#pragma GCC unroll 4
        for (V& x : to) x *= half_at(at) * kSignedByteScale;
      }
      if constexpr (Mins)
#pragma GCC unroll 4
        for (V& x : to) x += half_at(at + 2);
    }
#endif
  };
  struct Row : BlockRow {
    DML_INLINE Block block(std::int64_t i) const { return {p + i / 32 * SmallRows::kBytes}; }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{this->begin(n)}}; }
};

struct Iq4NlRows : BlockRows<18, 32> {
  struct Block {
    const unsigned char* p;
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      const unsigned char* at = p + v / kPart * kBytes;
      return looked_up(at + 2, v, iq4_values() * halves_at(at));
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      const unsigned char* at = p + v / kPart * kBytes;
      scaled_values(at + 2, iq4_values, half_at(at), to);
    }
#endif
  };
  struct Row : BlockRow {
    DML_INLINE Block block(std::int64_t i) const { return {p + i / 32 * kBytes}; }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{begin(n)}}; }
};

#endif
