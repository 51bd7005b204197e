// Loops over one row or one flat range: norms, rotary embedding, activations, softmax, optimizers.

// ---- norms. r = 1 / sqrt(mean(x²) + eps), x̂ = (x − mean) · r, g = dy · weight.
//   RMS:   dx = r · (g − x̂ · mean(g · x̂)),            dw += dy · x̂
//   Layer: dx = r · (g − mean(g) − x̂ · mean(g · x̂)),  dw += dy · x̂, db += dy

void rms_norm(const float* x, const float* w, float offset, float eps, std::int64_t d, float* y) {
  V squares{};
  for_vectors(
      d, [&](auto get, auto) __attribute__((always_inline)) { squares += get(x) * get(x); });
  float r = 1 / __builtin_sqrtf(sum(squares) / static_cast<float>(d) + eps);
  for_vectors(
      d, [&](auto get, auto put) __attribute__((always_inline)) { put(y, get(x) * r * (get(w) + offset)); });
}

void rms_norm_backward(const float* dy, const float* x, const float* w, float offset, float eps, std::int64_t d,
                       float* dx, bool add, float* dw) {
  V squares{}, products{};
  for_vectors(
      d, [&](auto get, auto) __attribute__((always_inline)) {
        V xv = get(x);
        squares += xv * xv;
        products += get(dy) * (get(w) + offset) * xv;
      });
  float n = static_cast<float>(d);
  float r = 1 / __builtin_sqrtf(sum(squares) / n + eps);
  float pull = sum(products) * r * r / n;
  for_vectors(
      d, [&](auto get, auto put) __attribute__((always_inline)) {
        V g = get(dy), xv = get(x);
        if (dw) put(dw, get(dw) + g * xv * r);
        V v = (g * (get(w) + offset) - xv * pull) * r;
        put(dx, add ? get(dx) + v : v);
      });
}

struct Moments {
  float mean, r;
};
DML_INLINE Moments moments(const float* x, float eps, std::int64_t d) {
  float n = static_cast<float>(d);
  V total{}, squares{};
  for_vectors(
      d, [&](auto get, auto) __attribute__((always_inline)) { total += get(x); });
  float mean = sum(total) / n;
  std::int64_t i = 0;
  for (; i + W <= d; i += W) {
    V c = load(x + i) - mean;
    squares += c * c;
  }
  float rest = 0;
  for (; i < d; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / __builtin_sqrtf((sum(squares) + rest) / n + eps)};
}

void layer_norm(const float* x, const float* w, const float* b, float offset, float eps, std::int64_t d, float* y) {
  auto [mean, r] = moments(x, eps, d);
  float m = mean, rr = r;
  for_vectors(
      d, [&](auto get, auto put) __attribute__((always_inline)) {
        V v = (get(x) - m) * rr * (get(w) + offset);
        put(y, b ? v + get(b) : v);
      });
}

void layer_norm_backward(const float* dy, const float* x, const float* w, float offset, float eps, std::int64_t d,
                         float* dx, bool add, float* dw, float* db) {
  auto [mean, r] = moments(x, eps, d);
  float m = mean, rr = r, n = static_cast<float>(d);
  V gradients{}, products{};
  for_vectors(
      d, [&](auto get, auto) __attribute__((always_inline)) {
        V g = get(dy) * (get(w) + offset);  // zero past the end
        gradients += g;
        products += g * (get(x) - m) * rr;
      });
  float shift = sum(gradients) / n, pull = sum(products) / n;
  for_vectors(
      d, [&](auto get, auto put) __attribute__((always_inline)) {
        V g = get(dy), normal = (get(x) - m) * rr;
        if (dw) put(dw, get(dw) + g * normal);
        if (db) put(db, get(db) + g);
        V v = (g * (get(w) + offset) - shift - normal * pull) * rr;
        put(dx, add ? get(dx) + v : v);
      });
}

void rope(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t half, const float* cos, const float* sin,
          float sign) {
  for (std::int64_t h = 0; h < heads; ++h) {
    float *a = x + h * head_dim, *b = a + half;
    for_vectors(
        half, [&](auto get, auto put) __attribute__((always_inline)) {
          V c = get(cos), s = get(sin) * sign, p = get(a), q = get(b);
          put(a, p * c - q * s);
          put(b, q * c + p * s);
        });
  }
}

void rope_interleaved(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t half, const float* cos,
                      const float* sin, float sign) {
  for (std::int64_t h = 0; h < heads; ++h) {
    float* a = x + h * head_dim;
    for (std::int64_t j = 0; j < half; ++j) {
      const float s = sin[j] * sign, p = a[2 * j], q = a[2 * j + 1];
      a[2 * j] = p * cos[j] - q * s;
      a[2 * j + 1] = q * cos[j] + p * s;
    }
  }
}

// ---- activations: value and slope.

struct Silu {
  DML_INLINE static V value(V x) { return x / (1.f + exp(-x)); }
  DML_INLINE static void both(V x, V& value, V& slope) {
    V s = 1.f / (1.f + exp(-x));
    value = x * s;
    slope = s * (1.f + x * (1.f - s));
  }
};
struct Gelu {
  DML_INLINE static V value(V x) { return 0.5f * x * (1.f + erf(x * 0.707106781f)); }
  DML_INLINE static void both(V x, V& value, V& slope) {
    V cdf = 0.5f * (1.f + erf(x * 0.707106781f));
    value = x * cdf;
    slope = cdf + x * 0.398942280f * exp(-0.5f * x * x);
  }
};
struct GeluTanh {
  DML_INLINE static V inner(V x) { return tanh(0.797884561f * (x + 0.044715f * x * x * x)); }
  DML_INLINE static V value(V x) { return 0.5f * x * (1.f + inner(x)); }
  DML_INLINE static void both(V x, V& value, V& slope) {
    V t = inner(x);
    value = 0.5f * x * (1.f + t);
    slope = 0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * 0.797884561f * (1.f + 0.134145f * x * x);
  }
};
struct Relu {
  DML_INLINE static V value(V x) { return x > 0.f ? x : (x == x ? V{} : x); }
  DML_INLINE static void both(V x, V& value_out, V& slope) {
    value_out = value(x);
    slope = x > 0.f ? all(1.f) : V{};
  }
};
struct Relu2 {
  DML_INLINE static V value(V x) {
    V r = Relu::value(x);
    return r * r;
  }
  DML_INLINE static void both(V x, V& value_out, V& slope) {
    V r = Relu::value(x);
    value_out = r * r;
    slope = 2.f * r;
  }
};

template <class F>
DML_INLINE void with_activation(int act, F f) {
  switch (act) {
    case 0:
      return f(Silu{});
    case 1:
      return f(Gelu{});
    case 2:
      return f(GeluTanh{});
    case 3:
      return f(Relu{});
    default:
      return f(Relu2{});
  }
}

void gated_act(int act, const float* gate, const float* up, std::int64_t n, float* h) {
  with_activation(
      act, [&](auto a) __attribute__((always_inline)) {
        for_vectors(
            n, [&](auto get, auto put) __attribute__((always_inline)) { put(h, a.value(get(gate)) * get(up)); });
      });
}
void gated_act_backward(int act, const float* dh, float* gate, float* up, std::int64_t n) {
  with_activation(
      act, [&](auto a) __attribute__((always_inline)) {
        for_vectors(
            n, [&](auto get, auto put) __attribute__((always_inline)) {
              V value, slope, d = get(dh);
              a.both(get(gate), value, slope);
              put(gate, d * get(up) * slope);
              put(up, d * value);
            });
      });
}
void activate(int act, const float* x, std::int64_t n, float* y) {
  with_activation(
      act, [&](auto a) __attribute__((always_inline)) {
        for_vectors(
            n, [&](auto get, auto put) __attribute__((always_inline)) { put(y, a.value(get(x))); });
      });
}
void activate_backward(int act, const float* dy, float* x, std::int64_t n) {
  with_activation(
      act, [&](auto a) __attribute__((always_inline)) {
        for_vectors(
            n, [&](auto get, auto put) __attribute__((always_inline)) {
              V value, slope;
              a.both(get(x), value, slope);
              put(x, get(dy) * slope);
            });
      });
}

// expm1(x) = tanh(x/2) · (exp(x) + 1), exact near zero, too.
DML_INLINE V expm1(V x) { return tanh(0.5f * x) * (exp(x) + 1.f); }

void xielu(const XieluFactors& f, const float* x, std::int64_t n, float* y) {
  const float p = f.p, m = f.n, beta = f.beta, eps = f.eps;
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) {
        V v = get(x);
        V positive = p * v * v, negative = m * (expm1(min(v, all(eps))) - v);
        put(y, (v > 0.f ? positive : negative) + beta * v);
      });
}
void xielu_backward(const XieluFactors& f, const float* dy, float* x, std::int64_t n, float* sums) {
  const float p = f.p, m = f.n, beta = f.beta, eps = f.eps;
  V of_p{}, of_n{};
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) {
        V v = get(x), d = get(dy), low = min(v, all(eps));  // d is zero past the end
        of_p += v > 0.f ? d * v * v : V{};
        of_n += v > 0.f ? V{} : d * (expm1(low) - v);
        V grows = v < eps ? exp(v) : V{};
        put(x, d * ((v > 0.f ? 2.f * p * v : m * (grows - 1.f)) + beta));
      });
  sums[0] = sum(of_p);
  sums[1] = sum(of_n);
}

// ---- softmax.

void softcap(float* x, std::int64_t n, float cap) {
  float inverse = 1 / cap;
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) { put(x, cap * tanh(get(x) * inverse)); });
}

constexpr float kMinusInfinity = -__builtin_inff();

void attention_softmax(float* s, std::int64_t keys, std::int64_t width, std::int64_t low, std::int64_t high, float cap,
                       float* max_of, float* sum_of, float* fix) {
  for (std::int64_t c = 0; c < width; c += W) {
    // What a block of 16 queries sees; the same keys are multiplied later, so all 16 columns of them are written.
    std::int64_t block = c / 16 * 16;
    std::int64_t begin = low + block > 0 ? low + block : 0, end = high + block + 15 < keys ? high + block + 15 : keys;
    bool whole = begin >= low + c + W - 1 && end - 1 < high + c;
    VI query = lane_numbers() + static_cast<std::int32_t>(c);
    V top = load(max_of + c);
    for (std::int64_t k = begin; k < end; ++k) {
      float* at = s + k * width + c;
      V x = load(at);
      if (cap > 0) x = cap * tanh(x / cap);
      if (!whole) {
        VI distance = static_cast<std::int32_t>(k) - query;
        x = (distance >= static_cast<std::int32_t>(low)) & (distance < static_cast<std::int32_t>(high))
                ? x
                : all(kMinusInfinity);
      }
      if (cap > 0 || !whole) store(at, x);
      top = max(x, top);
    }
    V base = top == kMinusInfinity ? V{} : top;  // a query that sees nothing yet
    V total{};
    for (std::int64_t k = begin; k < end; ++k) {
      float* at = s + k * width + c;
      V p = exp(load(at) - base);
      store(at, p);
      total += p;
    }
    V f = exp(load(max_of + c) - base);
    store(fix + c, f);
    store(sum_of + c, load(sum_of + c) * f + total);
    store(max_of + c, top);
  }
}

void attention_gradient(float* s, float* dp, std::int64_t keys, std::int64_t low, std::int64_t high, float cap,
                        float scale, float lse, float row_dot) {
  low = low < 0 ? 0 : low;
  high = high > keys ? keys : high;
  for (std::int64_t i = 0; i < low && i < keys; ++i) s[i] = dp[i] = 0;
  for (std::int64_t i = high < low ? low : high; i < keys; ++i) s[i] = dp[i] = 0;
  if (high <= low) return;
  s += low;
  dp += low;
  for_vectors(
      high - low, [&](auto get, auto put) __attribute__((always_inline)) {
        V x = get(s), slope = all(scale);
        if (cap > 0) {
          V t = tanh(x / cap);
          x = cap * t;
          slope = scale * (1.f - t * t);
        }
        V p = exp(x - lse);
        put(s, p);
        put(dp, p * (get(dp) - row_dot) * slope);
      });
}

// exp(x − max) goes to `to`, unless that is null.
DML_INLINE RowStats stats_of(const float* x, std::int64_t n, float* to) {
  V top = all(kMinusInfinity);
  std::int64_t i = 0;
  for (; i + W <= n; i += W) top = max(load(x + i), top);
  float most = largest(top);
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  // Blocks of 512 in float, the blocks in double: a vocabulary of 256 000 loses nothing.
  double total = 0;
  for (std::int64_t block = 0; block < n; block += 512) {
    std::int64_t end = block + 512 < n ? block + 512 : n;
    V part{};
    for (i = block; i + W <= end; i += W) {
      V e = exp(load(x + i) - most);
      if (to) store(to + i, e);
      part += e;
    }
    if (i < end) {
      V e = exp(load_part(x + i, end - i, kMinusInfinity) - most);
      if (to) store_part(to + i, e, end - i);
      part += e;
    }
    total += sum(part);
  }
  return {most, total};
}
RowStats row_stats(const float* x, std::int64_t n) { return stats_of(x, n, nullptr); }
RowStats row_exponentials(float* x, std::int64_t n) { return stats_of(x, n, x); }

void exp_shifted(float* x, std::int64_t n, float shift) {
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) { put(x, exp(get(x) - shift)); });
}

void capped_softmax_gradient(float* x, std::int64_t n, float lse, float cap) {
  float inverse = 1 / cap;
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) {
        V v = get(x), t = v * inverse;
        put(x, exp(v - lse) * (1.f - t * t));
      });
}

// ---- elementwise.

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
  // What is subtracted is small, so its rounding errors are: a factor 1 − ηλ would be off in the same direction every
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
