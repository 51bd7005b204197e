// A vector of W floats, and the elementary functions on it. Included once per instruction set, inside a namespace of
// its own, after kWidth is known. Polynomials: our own weighted minimax fits.

constexpr std::int64_t W = DML_VECTOR_BYTES / 4;
typedef float V __attribute__((vector_size(DML_VECTOR_BYTES)));
typedef std::int32_t VI __attribute__((vector_size(DML_VECTOR_BYTES)));
typedef std::uint32_t VU __attribute__((vector_size(DML_VECTOR_BYTES)));
typedef float VUnaligned __attribute__((vector_size(DML_VECTOR_BYTES), aligned(4), may_alias));
typedef double VD __attribute__((vector_size(DML_VECTOR_BYTES)));

#define DML_INLINE [[gnu::always_inline]] inline

DML_INLINE V load(const float* p) { return *reinterpret_cast<const VUnaligned*>(p); }
DML_INLINE void store(float* p, V x) { *reinterpret_cast<VUnaligned*>(p) = x; }
DML_INLINE V all(float x) { return x - V{}; }
DML_INLINE V max(V a, V b) { return a > b ? a : b; }
DML_INLINE V min(V a, V b) { return a < b ? a : b; }
DML_INLINE V absolute(V x) { return reinterpret_cast<V>(reinterpret_cast<VI>(x) & 0x7fffffff); }
DML_INLINE V with_sign_of(V magnitude, V sign) {
  return reinterpret_cast<V>((reinterpret_cast<VI>(magnitude) & 0x7fffffff) |
                             (reinterpret_cast<VI>(sign) & std::int32_t(0x80000000)));
}
DML_INLINE VI lane_numbers() {
  VI v;
  for (int i = 0; i < W; ++i) v[i] = i;
  return v;
}

// VU16 are added until one lane is left.
DML_INLINE float sum(V x) {
  typedef float V4 __attribute__((vector_size(16)));
  V4 q[W / 4];
  __builtin_memcpy(q, &x, sizeof x);
  for (int step = W / 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) q[i] += q[i + step];
  return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}
DML_INLINE float largest(V x) {
  float m = x[0];
  for (int i = 1; i < W; ++i) m = x[i] > m ? x[i] : m;
  return m;
}
DML_INLINE V load_part(const float* p, std::int64_t count, float rest = 0) {
  V x = all(rest);
  __builtin_memcpy(&x, p, static_cast<std::size_t>(count) * sizeof(float));
  return x;
}
DML_INLINE void store_part(float* p, V x, std::int64_t count) {
  __builtin_memcpy(p, &x, static_cast<std::size_t>(count) * sizeof(float));
}

// y[i] = f(x[i]…) over whole vectors, then once more over a padded rest.
template <class F>
DML_INLINE void for_vectors(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + W <= n; i += W)
    f(
        [i](const float* p) __attribute__((always_inline)) { return load(p + i); },
        [i](float* p, V x) __attribute__((always_inline)) { store(p + i, x); });
  if (std::int64_t rest = n - i; rest > 0)
    f(
        [ i, rest ](const float* p) __attribute__((always_inline)) { return load_part(p + i, rest); },
        [ i, rest ](float* p, V x) __attribute__((always_inline)) { store_part(p + i, x, rest); });
}

// exp(x), relative error below 1.5e-7; 0 below −87.3, held at 2.2e38 above 88.3, NaN stays NaN.
// x = n·ln2 + r with |r| ≤ ln2/2, exp(x) = 2ⁿ · (1 + r·(1 + r·p(r))); ln2 is split in two so that n·ln2 is exact.
DML_INLINE V exp(V x) {
  x = 88.3f < x ? all(88.3f) : x;
  V n = x * 1.44269504f + 12582912.f;        // 1.5·2²³: the sum's low bits are the rounded integer
  VU power = reinterpret_cast<VU>(n) << 23;  // modulo 2³²: the bits above the integer fall out
  n = n - 12582912.f;
  V r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  V p = all(0.00138146131f);
  p = p * r + 0.00836870983f;
  p = p * r + 0.0416683874f;
  p = p * r + 0.166665207f;
  p = p * r + 0.499999935f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  V y = reinterpret_cast<V>(reinterpret_cast<VU>(p) + power);
  return x < -87.3f ? V{} : y;
}

// tanh(x): x + x³·p(x²) near zero, else 1 − 2 / (exp(2x) + 1).
DML_INLINE V tanh(V x) {
  V s = x * x;
  V p = all(-0.00571704511f);
  p = p * s + 0.0206505874f;
  p = p * s - 0.0537434981f;
  p = p * s + 0.133314913f;
  p = p * s - 0.333332839f;
  V near = x + x * s * p;
  V t = absolute(x);
  V far = with_sign_of(1.f - 2.f / (exp(2.f * t) + 1.f), x);
  return t < 0.625f ? near : far;
}

// erf(x): x + x·p(x²) near zero, else 1 − exp(t·(q(t) − 1)), t = min(|x|, 4).
DML_INLINE V erf(V x) {
  V s = x * x;
  V p = all(8.34522769e-05f);
  p = p * s - 0.000813743829f;
  p = p * s + 0.00520063438f;
  p = p * s - 0.0268592708f;
  p = p * s + 0.112836939f;
  p = p * s - 0.376126337f;
  p = p * s + 0.128379167f;
  V near = x + x * p;
  V a = absolute(x), t = min(a, all(4.f));
  V q = all(-5.15092993e-06f);
  q = q * t + 4.82028221e-05f;
  q = q * t + 3.60618166e-05f;
  q = q * t - 0.00289229294f;
  q = q * t + 0.0226119975f;
  q = q * t - 0.105202901f;
  q = q * t - 0.635656529f;
  q = q * t - 0.128544899f;
  V far = with_sign_of(1.f - exp(t * q - t), x);
  return a < 0.92f ? near : (x == x ? far : x);
}
