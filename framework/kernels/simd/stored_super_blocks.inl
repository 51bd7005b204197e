// Rows of ggml's blocks of 256 values, as stored_blocks.inl has those of 32.
#if DML_VECTOR_BYTES >= 32

// q4_k and q5_k. Of every 64 columns, low nibbles are the first 32; of the bytes of fifth bits, bit g belongs to group
// g of 32 columns. code · step is exact: 5 bits times the 11 of a half and the 6 of its factor.
template <int Bits>
struct KRows : BlockRows<Bits == 4 ? 144 : 176, 256> {
  static constexpr int kFifths = 16, kCodes = Bits == 5 ? 48 : 16;
  struct Block {
    const float *steps, *downs;
    const unsigned char *codes, *fifths;
    int pair;  // of groups
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const {
      const int group = v / kPart;
      const VI bytes = unsigned_bytes(codes + v % kPart * W), low = group == 0 ? bytes : bytes >> 4;
      auto value = [&](VI code) __attribute__((always_inline)) { return floats(code) * steps[group] - downs[group]; };
      if constexpr (Bits == 4) return looked_up(low, value(lane_numbers()));
      const VI fifth = unsigned_bytes(fifths + v % kPart * W) >> (2 * pair + group) & 1;
      return value((low & 15) | fifth << 4);
    }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      const int group = v / kPart;
      if constexpr (Bits == 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const VI bytes = unsigned_bytes(codes + i * W);
          to[i] = floats(group == 0 ? bytes & 15 : bytes >> 4);
          to[i] = to[i] * steps[group] - downs[group];
        }
      } else {
        const __m256i nibbles = low_bits(_mm256_srli_epi16(load_bytes(codes), 4 * group), 15);
        const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << (2 * pair + group)));
        const __m256i fifth = _mm256_cmpeq_epi8(_mm256_and_si256(load_bytes(fifths), bit), bit);
        signed_bytes_in_order(_mm256_or_si256(nibbles, low_bits(fifth, 16)), to);
#pragma GCC unroll 4
        for (V& x : to) x = x * (steps[group] * kSignedByteScale) - downs[group];
      }
    }
#endif
  };
  struct Row : BlockRow {
    alignas(32) float steps[8], downs[8];
    // Scales and minima of six bits: the first four in the low six bits of bytes 0 to 3 and 4 to 7; of the others the
    // low nibbles in bytes 8 to 11, and the upper two bits above those of the first four.
    DML_INLINE void open(std::int64_t i) {
      const unsigned char* at = p + i / 256 * KRows::kBytes;
      std::uint32_t first, second, third;
      __builtin_memcpy(&first, at + 4, 4);
      __builtin_memcpy(&second, at + 8, 4);
      __builtin_memcpy(&third, at + 12, 4);
      auto put = [](float* to, std::uint32_t low, std::uint32_t high, float scale) __attribute__((always_inline)) {
        const auto codes = static_cast<long long>(low | std::uint64_t{high} << 32);
        const __m256 eight = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(codes)));
        _mm256_store_ps(to, _mm256_mul_ps(eight, _mm256_set1_ps(scale)));
      };
      put(steps, first & 0x3f3f3f3f, (third & 0x0f0f0f0f) | (first >> 2 & 0x30303030), half_at(at));
      put(downs, second & 0x3f3f3f3f, (third >> 4 & 0x0f0f0f0f) | (second >> 2 & 0x30303030), half_at(at + 2));
    }
    DML_INLINE Block block(std::int64_t i) const {
      const unsigned char* at = p + i / 256 * KRows::kBytes;
      const std::int64_t pair = i % 256 / kBlockCols;
      return {steps + 2 * pair, downs + 2 * pair, at + kCodes + 32 * pair, at + kFifths, static_cast<int>(pair)};
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{this->begin(n)}, {}, {}}; }
};

// 128 columns are four quarters of 32: low nibbles of two times 32 bytes, then the high ones; the upper two bits of all
// four share 32 bytes. A scale for 16 columns.
struct Q6KRows : BlockRows<210, 256> {
  struct Block {
#if DML_VECTOR_BYTES == 64
    const float* scales;  // of 16 columns each
    alignas(64) std::int8_t codes[64];
    DML_INLINE V get(int v) const {
      return floats(signed_bytes(reinterpret_cast<const unsigned char*>(codes + v * W))) * scales[v];
    }
#else
    const float* scales;              // of the quarters
    const unsigned char *low, *high;  // of the half
    int pair;                         // of quarters
    DML_INLINE void get(int v, V (&to)[4]) const {
      const int quarter = v / kPart;
      const __m256i nibbles = _mm256_srlv_epi32(load_bytes(low + 32 * quarter), _mm256_set1_epi32(4 * pair));
      __m256i above = _mm256_sllv_epi32(load_bytes(high), _mm256_set1_epi32(4 - 4 * pair));
      if (quarter == 1) above = _mm256_srli_epi16(above, 2);
      const __m256i codes = _mm256_or_si256(low_bits(nibbles, 15), low_bits(above, 0x30));
      signed_bytes_in_order(_mm256_sub_epi8(codes, _mm256_set1_epi8(32)), to);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) to[i] *= scales[2 * quarter + i / 2];
    }
#endif
  };
  struct Row : BlockRow {
    alignas(64) float scales[16];
    DML_INLINE void open(std::int64_t i) {
      const unsigned char* at = p + i / 256 * kBytes;
#if DML_VECTOR_BYTES == 64
      const V scale = all(half_at(at + 208));
#else
      const V scale = all(half_at(at + 208) * kSignedByteScale);
#endif
      for (int j = 0; j < 16; j += static_cast<int>(W)) store(scales + j, floats(signed_bytes(at + 192 + j)) * scale);
    }
    DML_INLINE Block block(std::int64_t i) const {
      const unsigned char* at = p + i / 256 * kBytes;
      const std::int64_t half = i % 256 / 128, pair = i % 128 / kBlockCols;
      const unsigned char *low = at + 64 * half, *high = at + 128 + 32 * half;
#if DML_VECTOR_BYTES == 64
      // The codes of 64 columns are joined as bytes. get() reads them from memory, where bytes are quicker to widen
      // than in a register.
      typedef std::uint64_t Words64 __attribute__((vector_size(64)));
      typedef std::int8_t Bytes __attribute__((vector_size(64)));
      Words64 nibbles;
      __builtin_memcpy(&nibbles, low, sizeof nibbles);
      nibbles = nibbles >> (4 * pair) & 0x0f0f0f0f0f0f0f0f;
      const auto both = reinterpret_cast<Words64>(  // for the quarters of the pair
          _mm512_maskz_broadcast_i64x4(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high))));
      const Words64 above =
          pair == 0 ? both << Words64{4, 4, 4, 4, 2, 2, 2, 2} : both >> Words64{0, 0, 0, 0, 2, 2, 2, 2};
      const Bytes codes = reinterpret_cast<Bytes>(nibbles | (above & 0x3030303030303030)) - 32;
      Block block;
      block.scales = scales + 8 * half + 4 * pair;
      __builtin_memcpy(block.codes, &codes, sizeof codes);
      return block;
#else
      return {scales + 8 * half + 4 * pair, low, high, static_cast<int>(pair)};
#endif
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{begin(n)}, {}}; }
};

struct Iq4XsRows : BlockRows<136, 256> {
  struct Block {
    const float* scales;  // of two parts of 32
    const unsigned char* p;
#if DML_VECTOR_BYTES == 64
    DML_INLINE V get(int v) const { return looked_up(p + v / kPart * 16, v, iq4_values() * scales[v / kPart]); }
#else
    DML_INLINE void get(int v, V (&to)[4]) const {
      scaled_values(p + v / kPart * 16, iq4_values, scales[v / kPart], to);
    }
#endif
  };
  struct Row : BlockRow {
    float scales[8];
    DML_INLINE void open(std::int64_t i) {
      const unsigned char* at = p + i / 256 * kBytes;
      std::uint16_t high;
      __builtin_memcpy(&high, at + 2, sizeof high);
      for (int part = 0; part < 8; ++part) {
        const int code = (at[4 + part / 2] >> 4 * (part % 2) & 15) | (high >> 2 * part & 3) << 4;
        scales[part] = half_at(at) * static_cast<float>(code - 32);
      }
    }
    DML_INLINE Block block(std::int64_t i) const {
      return {scales + i % 256 / 32, p + i / 256 * kBytes + 8 + i % 256 / 2};
    }
  };
  DML_INLINE Row row(std::int64_t n) const { return {{begin(n)}, {}}; }
};

#endif
