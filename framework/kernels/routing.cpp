#include "kernels/routing.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kTokens = 64;  // of a task

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Softmax of n logits; returns the log of the sum of their exponentials.
double softmax(const float* x, std::int64_t n, float* p) {
  float top = x[0];
  for (std::int64_t i = 1; i < n; ++i) top = std::max(top, x[i]);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += p[i] = std::exp(x[i] - top);
  const auto factor = static_cast<float>(1 / sum);
  for (std::int64_t i = 0; i < n; ++i) p[i] *= factor;
  return static_cast<double>(top) + std::log(sum);
}

// The indices of the `count` largest of n values in descending order; ties go to the lower index, NaN is below all
// numbers.
template <class Value>
void largest(std::int64_t n, std::int64_t count, Value value, std::int32_t* out) {
  auto better = [](float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); };
  for (std::int64_t i = 0, have = 0; i < n; ++i) {
    const float v = value(i);
    if (have == count && !better(v, value(out[count - 1]))) continue;
    std::int64_t at = have < count ? have++ : count - 1;
    for (; at > 0 && better(v, value(out[at - 1])); --at) out[at] = out[at - 1];
    out[at] = static_cast<std::int32_t>(i);
  }
}

// The set of groups that a token may choose from, as bits.
struct OpenGroups {
  static constexpr std::int64_t kMax = 256;
  std::int32_t list[kMax];
  std::int64_t count = 0;
  bool has(std::int64_t group) const { return std::find(list, list + count, group) != list + count; }
};

OpenGroups open_groups(const RoutingRule& rule, const float* scores) {
  const std::int64_t size = rule.experts / rule.groups;
  float best[OpenGroups::kMax];
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    float first = -INFINITY, second = -INFINITY;
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
      const float s = scores[e] + (rule.correction ? rule.correction[e] : 0.f);
      if (s > first) second = first, first = s;
      else if (s > second) second = s;
    }
    best[g] = size > 1 ? first + second : first;
  }
  OpenGroups open;
  open.count = rule.chosen_groups;
  largest(
      rule.groups, rule.chosen_groups, [&](std::int64_t g) { return best[g]; }, open.list);
  return open;
}

void choose(const RoutingRule& rule, const float* scores, std::int32_t* experts) {
  const bool grouped = rule.groups > 1;
  const OpenGroups open = grouped ? open_groups(rule, scores) : OpenGroups{};
  const std::int64_t size = rule.experts / rule.groups;
  auto value = [&](std::int64_t e) {
    if (grouped && !open.has(e / size)) return -INFINITY;  // corrected scores may be negative
    return scores[e] + (rule.correction ? rule.correction[e] : 0.f);
  };
  largest(rule.experts, rule.chosen, value, experts);
  std::sort(experts, experts + rule.chosen);
}

}  // namespace

void route(const RoutingRule& rule, ConstMat logits, Routing out) {
  ProfileScope profiled("route");
  DML_CHECK(logits.cols == rule.experts && rule.chosen <= rule.experts && rule.groups <= OpenGroups::kMax);
  parallel_ranges(logits.rows, kTokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const float* x = logits.row(t);
      float *p = out.scores.row(t), *w = out.weights.row(t);
      if (rule.sigmoid)
        for (std::int64_t e = 0; e < rule.experts; ++e) p[e] = 1 / (1 + std::exp(-x[e]));
      else softmax(x, rule.experts, p);
      std::int32_t* chosen = &out.experts[at(t * rule.chosen)];
      choose(rule, p, chosen);
      float sum = rule.sigmoid ? 1e-20f : 0.f;  // as DeepSeek
      for (std::int64_t i = 0; i < rule.chosen; ++i) sum += w[i] = p[chosen[i]];
      const float factor = rule.normalize ? rule.scale / sum : rule.scale;
      for (std::int64_t i = 0; i < rule.chosen; ++i) w[i] *= factor;
    }
  });
}

void route_backward(const RoutingRule& rule, const Routing& routing, ConstMat dweights, Mat dlogits) {
  ProfileScope profiled("route_backward");
  parallel_ranges(dlogits.rows, kTokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const float *p = routing.scores.row(t), *dw = dweights.row(t);
      const std::int32_t* chosen = &routing.experts[at(t * rule.chosen)];
      float* d = dlogits.row(t);
      // Gradients of the chosen scores, for w = scale · s / Σs or scale · s.
      float sum = 0, mean = 0;
      for (std::int64_t i = 0; i < rule.chosen; ++i) sum += p[chosen[i]], mean += dw[i] * p[chosen[i]];
      std::fill_n(d, rule.experts, 0.f);
      for (std::int64_t i = 0; i < rule.chosen; ++i)
        d[chosen[i]] = rule.scale * (rule.normalize ? (dw[i] - mean / sum) / sum : dw[i]);
      // The gradient of the logits through the scores.
      float pull = 0;
      for (std::int64_t i = 0; i < rule.chosen && !rule.sigmoid; ++i) pull += d[chosen[i]] * p[chosen[i]];
      for (std::int64_t e = 0; e < rule.experts; ++e)
        d[e] = rule.sigmoid ? d[e] * p[e] * (1 - p[e]) : p[e] * (d[e] - pull);
    }
  });
}

void dispatch(const RoutingRule& rule, const Routing& routing, Dispatch out) {
  if (dry_run()) return;
  ProfileScope profiled("dispatch");
  std::ranges::fill(out.starts, 0);
  for (std::int32_t e : routing.experts) ++out.starts[at(e) + 1];
  for (std::int64_t e = 0; e < rule.experts; ++e) out.starts[at(e) + 1] += out.starts[at(e)];
  for (std::size_t p = 0; p < routing.experts.size(); ++p) {
    std::int32_t& next = out.starts[at(routing.experts[p])];
    out.rows[p] = next;
    out.slots[at(next++)] = static_cast<std::int32_t>(p);
  }
  for (std::int64_t e = rule.experts; e > 0; --e) out.starts[at(e)] = out.starts[at(e) - 1];
  out.starts[0] = 0;
}

void gather_tokens(ConstMat from, const Dispatch& d, std::int64_t chosen, std::int64_t first, Mat to) {
  ProfileScope profiled("gather_tokens");
  parallel_ranges(to.rows, kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(from.row(d.slots[at(first + i)] / chosen), to.cols, to.row(i));
  });
}

void scatter_tokens(ConstMat from, const Dispatch& d, std::int64_t chosen, std::int64_t first, Order order, Mat to) {
  ProfileScope profiled("scatter_tokens");
  parallel_ranges(to.rows, kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t i = 0; i < chosen; ++i) {
        const std::int64_t place = t * chosen + (order == Order::ascending ? i : chosen - 1 - i);
        const std::int64_t row = d.rows[at(place)] - first;
        if (row >= 0 && row < from.rows) loops().add_scaled(from.row(row), 1, to.row(t), to.cols);
      }
  });
}

void apply_row_weights(Mat x, const Dispatch& d, ConstMat weights, std::int64_t first) {
  ProfileScope profiled("apply_row_weights");
  parallel_ranges(x.rows, kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      loops().set_scaled(x.row(i), weights.data[d.slots[at(first + i)]], x.row(i), x.cols);
  });
}

void weight_gradients(ConstMat x, ConstMat y, const Dispatch& d, std::int64_t first, Mat dweights) {
  ProfileScope profiled("weight_gradients");
  parallel_ranges(x.rows, kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      dweights.data[d.slots[at(first + i)]] = loops().dot(x.row(i), y.row(i), x.cols);
  });
}

void add_weighted_bias(ExpertBias bias, const Dispatch& d, ConstMat weights, std::int64_t first, Mat y) {
  parallel_ranges(y.rows, kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      loops().add_scaled(bias.values, bias.scale * weights.data[d.slots[at(first + i)]], y.row(i), y.cols);
  });
}

void weighted_bias_backward(ConstMat dy, ExpertBias bias, const Dispatch& d, ConstMat weights, std::int64_t first,
                            Mat dweights, float* dvalues) {
  parallel_ranges(dy.rows, kTokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      dweights.data[d.slots[at(first + i)]] += bias.scale * loops().dot(dy.row(i), bias.values, dy.cols);
  });
  constexpr std::int64_t kColumns = 256;
  parallel_ranges(dvalues ? dy.cols : 0, kColumns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < dy.rows; ++i)
      loops().add_scaled(dy.row(i) + begin, bias.scale * weights.data[d.slots[at(first + i)]], dvalues + begin,
                         end - begin);
  });
}

void add_gated_rows(ConstMat logits, ConstMat x, Mat y) {
  parallel_ranges(y.rows, kTokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      loops().add_scaled(x.row(t), 1 / (1 + std::exp(-logits.data[t])), y.row(t), y.cols);
  });
}

void gated_rows_backward(ConstMat dy, ConstMat logits, ConstMat x, Mat dx, Mat dlogits) {
  parallel_ranges(dy.rows, kTokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const float s = 1 / (1 + std::exp(-logits.data[t]));
      dlogits.data[t] = s * (1 - s) * loops().dot(dy.row(t), x.row(t), dy.cols);
      loops().set_scaled(dy.row(t), s, dx.row(t), dy.cols);
    }
  });
}

void add_routing(ConstMat logits, const Routing& routing, RoutingSums& sums, Arena& arena) {
  Arena::Scope scope(arena);
  auto square = arena.take<double>(logits.rows);
  Mat p = arena.matrix(logits.rows, logits.cols);
  parallel_ranges(logits.rows, kTokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      const double lse = softmax(logits.row(t), logits.cols, p.row(t));
      square[at(t)] = lse * lse;
    }
  });
  if (dry_run()) return;
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    sums.square += square[at(t)];
    for (std::int64_t e = 0; e < logits.cols; ++e) sums.probability[at(e)] += static_cast<double>(p.row(t)[e]);
  }
  for (std::int32_t e : routing.experts) sums.chosen[at(e)] += 1;
  sums.tokens += logits.rows;
}

void add_routing_gradient(ConstMat logits, std::span<const float> dprobability, float square, Mat dlogits) {
  parallel_ranges(logits.rows, kTokens, [&](std::int64_t first, std::int64_t last) {
    float* p = thread_scratch(logits.cols).data();
    for (std::int64_t t = first; t < last; ++t) {
      const auto lse = static_cast<float>(softmax(logits.row(t), logits.cols, p));
      float mean = 0;
      for (std::int64_t e = 0; e < logits.cols; ++e) mean += dprobability[at(e)] * p[e];
      for (std::int64_t e = 0; e < logits.cols; ++e)
        dlogits.row(t)[e] += p[e] * (dprobability[at(e)] - mean + 2 * square * lse);
    }
  });
}

}  // namespace dml::kernels
