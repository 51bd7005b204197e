// Loops over a flat range: sums, dropout, optimizers.

float dot(const float* a, const float* b, std::int64_t n) {
  V total{};
  for_vectors(
      n, [&](auto get, auto) __attribute__((always_inline)) { total += get(a) * get(b); });
  return sum(total);
}
void add_scaled(const float* x, float a, float* y, std::int64_t n) {
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) { put(y, get(y) + a * get(x)); });
}
void set_scaled(const float* x, float a, float* y, std::int64_t n) {
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) { put(y, a * get(x)); });
}

// W Philox blocks side by side; word w of block b belongs to element 4·b + w.
DML_INLINE void multiply(std::uint32_t a, VU b, VU& high, VU& low) {
#if DML_VECTOR_BYTES == 64
  __m512i x = reinterpret_cast<__m512i>(b), y = _mm512_set1_epi32(static_cast<std::int32_t>(a));
  __m512i even = _mm512_maskz_mul_epu32(0xff, x, y), odd = _mm512_maskz_mul_epu32(0xff, x >> 32, y);
  high = reinterpret_cast<VU>(_mm512_mask_mov_epi32(even >> 32, 0xaaaa, odd));
  low = reinterpret_cast<VU>(_mm512_mask_mov_epi32(even, 0xaaaa, odd << 32));
#elif DML_VECTOR_BYTES == 32
  __m256i x = reinterpret_cast<__m256i>(b), y = _mm256_set1_epi32(static_cast<std::int32_t>(a));
  __m256i even = _mm256_mul_epu32(x, y), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), y);
  high = reinterpret_cast<VU>(_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa));
  low = reinterpret_cast<VU>(_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa));
#else
  for (int i = 0; i < W; ++i) {
    std::uint64_t product = std::uint64_t{a} * b[i];
    low[i] = static_cast<std::uint32_t>(product);
    high[i] = static_cast<std::uint32_t>(product >> 32);
  }
#endif
}

// a0 b0 a1 b1 … of the first or second half of the lanes.
DML_INLINE V zip(V a, V b, int half) {
  VI pick{};
  for (int i = 0; i < W; ++i) pick[i] = static_cast<std::int32_t>(half * (W / 2) + i / 2 + (i % 2) * W);
  return __builtin_shuffle(a, b, pick);
}

void dropout(const float* x, std::int64_t n, std::uint32_t threshold, float factor, std::uint64_t first_block,
             const std::uint32_t* key, const std::uint32_t* high, float* y) {
  for (std::int64_t done = 0; done < n; done += 4 * W) {
    std::uint64_t block = first_block + static_cast<std::uint64_t>(done / 4);
    auto low_word = static_cast<std::uint32_t>(block), high_word = static_cast<std::uint32_t>(block >> 32);
    VU c0 = reinterpret_cast<VU>(lane_numbers()) + low_word;
    VU c1 = c0 < low_word ? VU{} + (high_word + 1) : VU{} + high_word;  // the carry
    VU c2 = VU{} + high[0], c3 = VU{} + high[1];
    std::uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      VU high0, low0, high2, low2;
      multiply(0xD2511F53u, c0, high0, low0);
      multiply(0xCD9E8D57u, c2, high2, low2);
      c0 = high2 ^ c1 ^ k0;
      c1 = low2;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
    }
    V keep[4];
    VU words[4] = {c0, c1, c2, c3};
    for (int w = 0; w < 4; ++w) keep[w] = (words[w] >> 8) >= threshold ? all(factor) : V{};
    alignas(64) float mask[4 * W];
    for (int half = 0; half < 2; ++half) {
      V even = zip(keep[0], keep[2], half), odd = zip(keep[1], keep[3], half);
      store(mask + 2 * half * W, zip(even, odd, 0));
      store(mask + (2 * half + 1) * W, zip(even, odd, 1));
    }
    std::int64_t count = n - done < 4 * W ? n - done : 4 * W;
    for_vectors(
        count, [&](auto get, auto put) __attribute__((always_inline)) { put(y + done, get(x + done) * get(mask)); });
  }
}

double sum_of_squares(const float* x, std::int64_t n) {
  constexpr std::int64_t L = 16;
  double lane[L] = {};
  std::int64_t i = 0;
  for (; i + L <= n; i += L)
    for (std::int64_t j = 0; j < L; ++j) lane[j] += static_cast<double>(x[i + j]) * x[i + j];
  for (; i < n; ++i) lane[i % L] += static_cast<double>(x[i]) * x[i];
  double total = 0;
  for (double v : lane) total += v;
  return total;
}

// x − x is zero for a finite x, NaN otherwise.
bool all_finite(const float* x, std::int64_t n) {
  V worst{};
  for_vectors(
      n, [&](auto get, auto) __attribute__((always_inline)) {
        V v = get(x);
        worst += v - v;
      });
  return sum(worst) == 0;
}

// ---- optimizers.

void adamw(const AdamWStep& step, float* __restrict value, const float* __restrict grad, float* __restrict m,
           float* __restrict v, std::int64_t n) {
  // Subtracts ηλw: a small number has small rounding errors, while a factor 1 − ηλ has the same rounding error in every
  // step.
  float decay = step.learning_rate * step.weight_decay, rate = step.learning_rate / step.bias1;
  float b1 = step.beta1, b2 = step.beta2, scale = step.gradient_scale, epsilon = step.epsilon;
  float root2 = 1 / __builtin_sqrtf(step.bias2);
  for (std::int64_t i = 0; i < n; ++i) {
    float g = grad[i] * scale;
    float mean = b1 * m[i] + (1 - b1) * g, square = b2 * v[i] + (1 - b2) * g * g;
    m[i] = mean;
    v[i] = square;
    value[i] -= decay * value[i] + rate * mean / (__builtin_sqrtf(square) * root2 + epsilon);
  }
}

void sgd(float rate, float momentum, float decay, float scale, float* __restrict value, const float* __restrict grad,
         float* __restrict buffer, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    float b = momentum * buffer[i] + grad[i] * scale + decay * value[i];
    buffer[i] = b;
    value[i] -= rate * b;
  }
}

void lion(float rate, float b1, float b2, float decay, float scale, float* __restrict value,
          const float* __restrict grad, float* __restrict m, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    float g = grad[i] * scale, c = b1 * m[i] + (1 - b1) * g;
    float direction = static_cast<float>(c > 0) - static_cast<float>(c < 0);
    value[i] -= rate * decay * value[i] + rate * direction;
    m[i] = b2 * m[i] + (1 - b2) * g;
  }
}
