// Softmax over rows of scores and of logits, with their gradients.

void softcap(float* x, std::int64_t n, float cap) {
  float inverse = 1 / cap;
  for_vectors(
      n, [&](auto get, auto put) __attribute__((always_inline)) { put(x, cap * tanh(get(x) * inverse)); });
}

constexpr float kMinusInfinity = -__builtin_inff();

void attention_softmax(float* s, std::int64_t keys, std::int64_t width, std::int64_t low, std::int64_t high, float cap,
                       float* max_of, float* sum_of, float* fix) {
  for (std::int64_t c = 0; c < width; c += W) {
    // The keys that a block of 16 queries sees; later products read the same keys, so all 16 columns are written.
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
    V base = top == kMinusInfinity ? V{} : top;  // the query has not seen a key yet
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

// Writes exp(x − max) to `to` unless null.
DML_INLINE RowStats stats_of(const float* x, std::int64_t n, float* to) {
  V top = all(kMinusInfinity);
  std::int64_t i = 0;
  for (; i + W <= n; i += W) top = max(load(x + i), top);
  float most = largest(top);
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  // Blocks of 512 are summed in float, the blocks in double, so that a vocabulary of 256 000 does not lose precision.
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
