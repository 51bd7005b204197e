#include "kernels/quant_ggml_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/weight.h"

// One copy per instruction set, chosen at start. They give the same bits: this file is compiled without contraction.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DML_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DML_CLONES
#endif
#define DML_INLINE __attribute__((always_inline)) inline

namespace dml::kernels {
namespace {

// A number of each of sixteen groups.
constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t Ints __attribute__((vector_size(4 * kLanes)));

DML_INLINE void set_nearest(const Floats& x, int low, int high, Floats& out) {
  const Floats shifted = x + 12582912.0f;
  Ints code = ((Ints)shifted & 0x7fffff) - 0x400000;
  code = code < low ? Ints{} + low : code;
  code = code > high ? Ints{} + high : code;
  out = __builtin_convertvector(code, Floats);
}

struct Group {
  Floats x[32], weight[32];
  Floats scale, min, inverse, least;  // the best so far
};

DML_INLINE void weigh(Group& g) {
  Floats squares{};
  for (int i = 0; i < 32; ++i) squares += g.x[i] * g.x[i];
  squares /= 32.0f;
  Floats mean;
  for (int l = 0; l < kLanes; ++l) mean[l] = std::sqrt(squares[l]);
  for (int i = 0; i < 32; ++i) g.weight[i] = mean + (g.x[i] < 0 ? -g.x[i] : g.x[i]);
}

template <int Top>
DML_INLINE void search(Group& g, float first, float step, int steps) {
  Floats low = g.x[0], high = g.x[0], sum_w = g.weight[0], sum_x = sum_w * g.x[0];
  for (int i = 1; i < 32; ++i) {
    low = g.x[i] < low ? g.x[i] : low;
    high = g.x[i] > high ? g.x[i] : high;
    sum_w += g.weight[i];
    sum_x += g.weight[i] * g.x[i];
  }
  low = low > 0 ? Floats{} : low;
  const Ints flat = high == low;
  const Floats start = low;
  g.inverse = static_cast<float>(Top) / (high - low);
  g.scale = 1.0f / g.inverse, g.min = g.least = low;
  Floats best{}, code[32];
  for (int i = 0; i < 32; ++i) {
    set_nearest(g.inverse * (g.x[i] - g.min), 0, Top, code[i]);
    const Floats off = g.scale * code[i] + g.min - g.x[i];
    best += g.weight[i] * (off * off);
  }
  for (int s = 0; s <= steps; ++s) {
    const Floats inverse = (first + step * static_cast<float>(s) + static_cast<float>(Top)) / (high - g.min);
    Floats sum_l{}, sum_l2{}, sum_xl{};
    for (int i = 0; i < 32; ++i) {
      set_nearest(inverse * (g.x[i] - g.min), 0, Top, code[i]);
      const Floats wl = g.weight[i] * code[i];
      sum_l += wl;
      sum_l2 += wl * code[i];
      sum_xl += wl * g.x[i];
    }
    const Floats determinant = sum_w * sum_l2 - sum_l * sum_l;
    Floats scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    Floats min = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
    const Ints above = min > 0;
    min = above ? Floats{} : min;
    scale = above ? sum_xl / sum_l2 : scale;
    Floats error{};
    for (int i = 0; i < 32; ++i) {
      const Floats off = scale * code[i] + min - g.x[i];
      error += g.weight[i] * (off * off);
    }
    const Ints better = (determinant > 0) & (error < best);
    best = better ? error : best;
    g.scale = better ? scale : g.scale;
    g.inverse = better ? inverse : g.inverse;
    g.least = better ? g.min : g.least;
    g.min = better ? min : g.min;
  }
  g.scale = flat ? Floats{} : g.scale;  // all values alike: codes 0
  g.inverse = flat ? Floats{} : g.inverse;
  g.min = flat ? start : g.min;
  g.least = flat ? start : g.least;
}

template <int Bits>
DML_INLINE void search_all(const float* x, int blocks, GroupSearch* found) {
  Group g;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 32; ++i) g.x[i][lane] = x[32 * (lane % (8 * blocks)) + i];
  weigh(g);
  constexpr int kTop = (1 << Bits) - 1;
  search<kTop>(g, Bits == 4 ? -1.0f : -0.5f, 0.1f, Bits == 4 ? 20 : 15);
  for (int j = 0; j < 8 * blocks; ++j) found[j] = {g.scale[j], -g.min[j], g.inverse[j], g.least[j], kTop};
}

DML_CLONES void search_4(const float* x, int blocks, GroupSearch* found) { search_all<4>(x, blocks, found); }
DML_CLONES void search_5(const float* x, int blocks, GroupSearch* found) { search_all<5>(x, blocks, found); }

DML_CLONES void search_6(const float* values, float* scales, float* inverse_out) {
  Floats x[16], most{}, signed_most{};
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 16; ++i) x[i][lane] = values[16 * lane + i];
  for (int i = 0; i < 16; ++i) {
    const Floats magnitude = x[i] < 0 ? -x[i] : x[i];
    signed_most = magnitude > most ? x[i] : signed_most;
    most = magnitude > most ? magnitude : most;
  }
  const Ints none = most < kNoScale;
  Floats scale{}, best{}, kept{};
  for (int s = 0; s <= 18; ++s) {  // the plain scale, then its neighbors from −9 to 9 tenths
    const int t = s == 0 ? 0 : s <= 9 ? s - 10 : s - 9;
    const Floats inverse = (s == 0 ? -32.0f : -(32 + 0.1f * static_cast<float>(t))) / signed_most;
    Floats sum_lx{}, sum_l2{}, code;
    for (int i = 0; i < 16; ++i) {
      set_nearest(inverse * x[i], -32, 31, code);
      const Floats weight = x[i] * x[i];
      sum_lx += weight * x[i] * code;
      sum_l2 += weight * code * code;
    }
    Ints better = (sum_l2 > 0) & (sum_lx * sum_lx > best * sum_l2);
    if (s == 0) better = sum_l2 != 0;
    scale = better ? sum_lx / sum_l2 : scale;
    best = better ? scale * sum_lx : best;
    if (s == 0) kept = inverse;
    else kept = better ? inverse : kept;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    scales[lane] = none[lane] ? 0 : scale[lane];
    inverse_out[lane] = none[lane] ? 0 : kept[lane];
  }
}

// A least-squares fit of the scale of 32 values, weighted by x², to the codes that the inverse `to_code` gives.
struct ScaleFit {
  float products = 0, squares = 0;
  ScaleFit(const float* x, float to_code) {
    for (int i = 0; i < 32; ++i) {
      const float value = kIq4Values[nearest_iq4(to_code * x[i])], weight = x[i] * x[i];
      products += weight * value * x[i];
      squares += weight * value * value;
    }
  }
  float scale() const { return squares > 0 ? products / squares : 0; }
};

}  // namespace

template <>
void search_groups<4>(const float* x, int blocks, GroupSearch* found) {
  search_4(x, blocks, found);
}
template <>
void search_groups<5>(const float* x, int blocks, GroupSearch* found) {
  search_5(x, blocks, found);
}
void search_symmetric(const float* x, float* scales, float* inverse) { search_6(x, scales, inverse); }

int nearest_iq4(float x) {
  if (x <= kIq4Values[0]) return 0;
  if (x >= kIq4Values[15]) return 15;
  const auto above = std::upper_bound(std::begin(kIq4Values), std::end(kIq4Values), x) - std::begin(kIq4Values);
  return static_cast<int>(x - kIq4Values[above - 1] < kIq4Values[above] - x ? above - 1 : above);
}

float search_iq4(const float* x) {
  constexpr int kTries = 7;
  const float most = *std::max_element(x, x + 32, [](float p, float q) { return std::fabs(p) < std::fabs(q); });
  if (std::fabs(most) < kNoScale) return 0;
  const ScaleFit first(x, 1 / (-most / kIq4Values[0]));
  float d = first.scale(), best = d * first.products;
  for (int t = -kTries; t <= kTries; ++t) {
    const ScaleFit fit(x, (static_cast<float>(t) + kIq4Values[0]) / most);
    if (fit.squares > 0 && fit.products * fit.products > best * fit.squares) d = fit.scale(), best = d * fit.products;
  }
  return d;
}

}  // namespace dml::kernels
