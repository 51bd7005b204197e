// Loops over a row or a flat range: norms, rotary embedding, activations.

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

struct QuickGelu {
  DML_INLINE static V value(V x) { return x / (1.f + exp(-1.702f * x)); }
  DML_INLINE static void both(V x, V& value, V& slope) {
    V s = 1.f / (1.f + exp(-1.702f * x));
    value = x * s;
    slope = s * (1.f + 1.702f * x * (1.f - s));
  }
};
struct Tanh {
  DML_INLINE static V value(V x) { return tanh(x); }
  DML_INLINE static void both(V x, V& value, V& slope) {
    value = tanh(x);
    slope = 1.f - value * value;
  }
};

template <class F>
DML_INLINE void with_activation(Activation act, F f) {
  switch (act) {
    case Activation::silu:
      return f(Silu{});
    case Activation::gelu:
      return f(Gelu{});
    case Activation::gelu_tanh:
      return f(GeluTanh{});
    case Activation::relu:
      return f(Relu{});
    case Activation::relu2:
      return f(Relu2{});
    case Activation::quick_gelu:
      return f(QuickGelu{});
    case Activation::tanh:
      return f(Tanh{});
    case Activation::xielu:
    case Activation::clamped_silu:
      break;  // their own loops
  }
}

void gated_act(Activation act, const float* gate, const float* up, std::int64_t n, float* h) {
  with_activation(
      act, [&](auto a) __attribute__((always_inline)) {
        for_vectors(
            n, [&](auto get, auto put) __attribute__((always_inline)) { put(h, a.value(get(gate)) * get(up)); });
      });
}
void gated_act_backward(Activation act, const float* dh, float* gate, float* up, std::int64_t n) {
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
void activate(Activation act, const float* x, std::int64_t n, float* y) {
  with_activation(
      act, [&](auto a) __attribute__((always_inline)) {
        for_vectors(
            n, [&](auto get, auto put) __attribute__((always_inline)) { put(y, a.value(get(x))); });
      });
}
void activate_backward(Activation act, const float* dy, float* x, std::int64_t n) {
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

// expm1(x) = tanh(x/2) · (exp(x) + 1), accurate near zero.
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
