// One table of kernel cases: what a kernel takes and gives, how to run it forward and backward, the same mathematics in
// slow double precision, and what it costs. Value, gradient and thread tests and the benchmark are driven by it.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/bf16.h"
#include "core/random.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gated_act.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/xielu.h"

namespace dml::kernels::cases {

using Values = std::vector<double>;
using Mats = std::vector<Mat>;

struct Shape {
  std::int64_t rows, cols;
  float spread = 1;  // standard deviation of the random values
  float shift = 0;
  std::int64_t size() const { return rows * cols; }
};

struct Case {
  std::string name;
  std::vector<Shape> inputs, outputs;
  std::function<void(const Mats& in, const Mats& out, Arena&)> forward;
  /// din has a matrix for every input, zero at first. May spoil `in` and `dout`.
  std::function<void(const Mats& in, const Mats& out, const Mats& dout, const Mats& din, Arena&)> backward;
  /// The outputs, from the inputs, in double.
  std::function<std::vector<Values>(const std::vector<Values>& in)> reference;
  double forward_flops = 0, backward_flops = 0;  // that the mathematics needs
  double forward_bytes = 0, backward_bytes = 0;  // read and written once each
  double tolerance = 2e-5;                       // of the largest value
};

inline Case linear(std::int64_t t, std::int64_t n, std::int64_t k) {
  Case c{fmt::format("linear T={} N={} K={}", t, n, k), {{t, k}, {n, k, 0.1f}}, {{t, n}}, {}, {}, {}};
  c.forward = [](const Mats& in, const Mats& out, Arena&) { gemm_nt(in[0], weight_of(in[1]), out[0], Write::set); };
  c.backward = [](const Mats& in, const Mats&, const Mats& dout, const Mats& din, Arena&) {
    gemm_nn(dout[0], weight_of(in[1]), din[0], Write::set);
    gemm_tn(dout[0], in[0], din[1], Write::set);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values y(static_cast<std::size_t>(t * n));
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double s = 0;
        for (std::int64_t l = 0; l < k; ++l)
          s += in[0][static_cast<std::size_t>(i * k + l)] * in[1][static_cast<std::size_t>(j * k + l)];
        y[static_cast<std::size_t>(i * n + j)] = s;
      }
    return std::vector<Values>{y};
  };
  double product = 2.0 * static_cast<double>(t * n * k);
  c.forward_flops = product;
  c.backward_flops = 2 * product;
  return c;
}

inline Case lora(std::int64_t t, std::int64_t n, std::int64_t k, std::int64_t r, float scale = 2) {
  Case c{fmt::format("lora T={} N={} K={} R={}", t, n, k, r),
         {{t, k}, {r, k, 0.2f}, {n, r}},
         {{t, r}, {t, n}},
         {},
         {},
         {}};
  c.forward = [=](const Mats& in, const Mats& out, Arena& scratch) {
    lora_down(AdapterDown{in[0], in[1], out[0]}, scratch);
    lora_up(AdapterUp{out[0], in[2], scale, out[1]});
  };
  c.backward = [=](const Mats& in, const Mats& out, const Mats& dout, const Mats& din, Arena& scratch) {
    Arena::Scope scope(scratch);
    Mat ddown = scratch.matrix(t, r);
    lora_up_backward(AdapterUpGradient{dout[1], out[0], in[2], scale, ddown, din[2]}, scratch);
    add_scaled(dout[0], 1, ddown);
    lora_down_backward(AdapterDownGradient{ddown, in[0], in[1], din[0], din[1]}, scratch);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values down(static_cast<std::size_t>(t * r)), y(static_cast<std::size_t>(t * n));
    for (std::int64_t i = 0; i < t; ++i) {
      for (std::int64_t j = 0; j < r; ++j) {
        double s = 0;
        for (std::int64_t l = 0; l < k; ++l)
          s += in[0][static_cast<std::size_t>(i * k + l)] * in[1][static_cast<std::size_t>(j * k + l)];
        down[static_cast<std::size_t>(i * r + j)] = s;
      }
      for (std::int64_t j = 0; j < n; ++j) {
        double s = 0;
        for (std::int64_t l = 0; l < r; ++l)
          s += down[static_cast<std::size_t>(i * r + l)] * in[2][static_cast<std::size_t>(j * r + l)];
        y[static_cast<std::size_t>(i * n + j)] = scale * s;
      }
    }
    return std::vector<Values>{down, y};
  };
  c.forward_flops = 2.0 * static_cast<double>(t * r * (n + k));
  c.backward_flops = 2 * c.forward_flops;
  c.forward_bytes = 4.0 * static_cast<double>(t * (2 * n + k));
  c.backward_bytes = 4.0 * static_cast<double>(t * (2 * n + 3 * k));
  return c;
}

inline Case rms(std::int64_t t, std::int64_t d, float offset = 0) {
  Case c{fmt::format("rms_norm T={} D={} offset={}", t, d, offset),
         {{t, d}, {1, d, 0.3f, 1 - offset}},
         {{t, d}},
         {},
         {},
         {}};
  constexpr float eps = 1e-5f;
  c.forward = [=](const Mats& in, const Mats& out, Arena&) { rms_norm(in[0], in[1].data, offset, eps, out[0]); };
  c.backward = [=](const Mats& in, const Mats&, const Mats& dout, const Mats& din, Arena& scratch) {
    rms_norm_backward(dout[0], in[0], in[1].data, offset, eps, din[0], Write::add, din[1].data, scratch);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values y(in[0].size());
    for (std::size_t i = 0, n = static_cast<std::size_t>(d); i < y.size(); i += n) {
      double squares = 0;
      for (std::size_t j = 0; j < n; ++j) squares += in[0][i + j] * in[0][i + j];
      double r = 1 / std::sqrt(squares / static_cast<double>(d) + static_cast<double>(eps));
      for (std::size_t j = 0; j < n; ++j) y[i + j] = in[0][i + j] * r * (in[1][j] + offset);
    }
    return std::vector<Values>{y};
  };
  c.forward_bytes = 8.0 * static_cast<double>(t * d);
  c.backward_bytes = 16.0 * static_cast<double>(t * d);
  return c;
}

inline Case layer(std::int64_t t, std::int64_t d, float offset = 0) {
  Case c{fmt::format("layer_norm T={} D={} offset={}", t, d, offset),
         {{t, d, 1, 0.5f}, {1, d, 0.3f, 1}, {1, d}},
         {{t, d}},
         {},
         {},
         {}};
  constexpr float eps = 1e-5f;
  c.forward = [=](const Mats& in, const Mats& out, Arena&) {
    layer_norm(in[0], in[1].data, in[2].data, offset, eps, out[0]);
  };
  c.backward = [=](const Mats& in, const Mats&, const Mats& dout, const Mats& din, Arena& scratch) {
    layer_norm_backward(dout[0], in[0], in[1].data, offset, eps, din[0], Write::set, din[1].data, din[2].data, scratch);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values y(in[0].size());
    for (std::size_t i = 0, n = static_cast<std::size_t>(d); i < y.size(); i += n) {
      double mean = 0, variance = 0;
      for (std::size_t j = 0; j < n; ++j) mean += in[0][i + j] / static_cast<double>(d);
      for (std::size_t j = 0; j < n; ++j)
        variance += (in[0][i + j] - mean) * (in[0][i + j] - mean) / static_cast<double>(d);
      double r = 1 / std::sqrt(variance + static_cast<double>(eps));
      for (std::size_t j = 0; j < n; ++j) y[i + j] = (in[0][i + j] - mean) * r * (in[1][j] + offset) + in[2][j];
    }
    return std::vector<Values>{y};
  };
  c.forward_bytes = 8.0 * static_cast<double>(t * d);
  c.backward_bytes = 12.0 * static_cast<double>(t * d);
  return c;
}

inline double activation(Activation act, double x) {
  switch (act) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::relu2:
      return x > 0 ? x * x : 0;
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::xielu:
    case Activation::clamped_silu:
      break;  // have cases of their own
  }
  return 0;
}

inline Case gated(Activation act, std::int64_t t, std::int64_t f) {
  Case c{fmt::format("gated_act {} T={} F={}", static_cast<int>(act), t, f), {{t, f, 2}, {t, f}}, {{t, f}}, {}, {}, {}};
  c.forward = [=](const Mats& in, const Mats& out, Arena&) { gated_act(act, in[0], in[1], out[0]); };
  c.backward = [=](const Mats& in, const Mats&, const Mats& dout, const Mats& din, Arena&) {
    copy(in[0], din[0]);
    copy(in[1], din[1]);
    gated_act_backward(act, dout[0], din[0], din[1]);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values y(in[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = activation(act, in[0][i]) * in[1][i];
    return std::vector<Values>{y};
  };
  c.forward_bytes = 12.0 * static_cast<double>(t * f);
  c.backward_bytes = 20.0 * static_cast<double>(t * f);
  return c;
}

inline Case plain(Activation act, std::int64_t t, std::int64_t f) {
  Case c{fmt::format("activate {} T={} F={}", static_cast<int>(act), t, f), {{t, f, 2}}, {{t, f}}, {}, {}, {}};
  c.forward = [=](const Mats& in, const Mats& out, Arena&) { activate(act, in[0], out[0]); };
  c.backward = [=](const Mats& in, const Mats&, const Mats& dout, const Mats& din, Arena&) {
    copy(in[0], din[0]);
    activate_backward(act, dout[0], din[0]);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values y(in[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = activation(act, in[0][i]);
    return std::vector<Values>{y};
  };
  c.forward_bytes = 8.0 * static_cast<double>(t * f);
  c.backward_bytes = 12.0 * static_cast<double>(t * f);
  return c;
}

/// The two scalars are inputs of one element; beta 0.4, and an eps at which a kink would show.
inline Case xielu_case(std::int64_t t, std::int64_t f) {
  Case c{fmt::format("xielu T={} F={}", t, f), {{t, f, 2}, {1, 1}, {1, 1}}, {{t, f}}, {}, {}, {}};
  auto scalars = [](const Mats& in) { return Xielu{*in[1].data, *in[2].data, 0.4f, -1e-6f}; };
  c.forward = [=](const Mats& in, const Mats& out, Arena&) { xielu(scalars(in), in[0], out[0]); };
  c.backward = [=](const Mats& in, const Mats&, const Mats& dout, const Mats& din, Arena& scratch) {
    copy(in[0], din[0]);
    xielu_backward(scalars(in), dout[0], din[0], din[1].data, din[2].data, scratch);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values y(in[0].size());
    const double p = std::log1p(std::exp(in[1][0])), n = 0.4 + std::log1p(std::exp(in[2][0]));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double x = in[0][i];
      y[i] = (x > 0 ? p * x * x : n * (std::expm1(std::min(x, -1e-6)) - x)) + 0.4 * x;
    }
    return std::vector<Values>{y};
  };
  return c;
}

/// Document starts from their lengths.
inline std::vector<std::int32_t> starts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> starts{0};
  for (auto n : lengths) starts.push_back(starts.back() + static_cast<std::int32_t>(n));
  return starts;
}

inline Case rotary(std::int64_t t, std::int64_t heads, std::int64_t head_dim, std::int64_t turned,
                   bool interleaved = false) {
  Case c{fmt::format("rope T={} H={} E={} turned={}{}", t, heads, head_dim, turned, interleaved ? " interleaved" : ""),
         {{t, heads * head_dim}},
         {{t, heads * head_dim}},
         {},
         {},
         {}};
  auto table = std::make_shared<std::vector<float>>();
  auto positions = std::make_shared<std::vector<std::int32_t>>();
  std::int64_t half = turned / 2;
  for (int part = 0; part < 2; ++part)
    for (std::int64_t p = 0; p < t; ++p)
      for (std::int64_t j = 0; j < half; ++j) {
        double angle =
            static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(turned));
        table->push_back(static_cast<float>(part == 0 ? std::cos(angle) : std::sin(angle)));
      }
  for (std::int64_t i = 0; i < t; ++i) positions->push_back(static_cast<std::int32_t>(i * 7 % t));
  RopeTable rope_table{{table->data(), t, half}, {table->data() + t * half, t, half}, interleaved};
  c.forward = [=](const Mats& in, const Mats& out, Arena&) {
    copy(in[0], out[0]);
    rope(out[0], head_dim, {rope_table, *positions}, false);
  };
  c.backward = [=](const Mats&, const Mats&, const Mats& dout, const Mats& din, Arena&) {
    copy(dout[0], din[0]);
    rope(din[0], head_dim, {rope_table, *positions}, true);
  };
  c.reference = [=, keep = table](const std::vector<Values>& in) {
    Values y = in[0];
    for (std::int64_t i = 0; i < t; ++i)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t j = 0; j < half; ++j) {
          const auto head = static_cast<std::size_t>((i * heads + h) * head_dim), pair = static_cast<std::size_t>(j);
          const std::size_t lo = head + (interleaved ? 2 * pair : pair),
                            hi = lo + (interleaved ? 1 : static_cast<std::size_t>(half));
          std::int64_t p = (*positions)[static_cast<std::size_t>(i)];
          double cs = rope_table.cos.row(p)[j], sn = rope_table.sin.row(p)[j];
          y[lo] = in[0][lo] * cs - in[0][hi] * sn;
          y[hi] = in[0][hi] * cs + in[0][lo] * sn;
        }
    return std::vector<Values>{y};
  };
  c.forward_bytes = c.backward_bytes = 16.0 * static_cast<double>(t * heads * head_dim);
  return c;
}

/// Of ALiBi, for up to four heads.
inline constexpr float kSlopes[] = {0.25f, 0.0625f, 0.015625f, 0.5f};

inline Case attend(AttentionShape s, std::vector<std::int64_t> lengths) {
  auto starts = std::make_shared<std::vector<std::int32_t>>(starts_of(lengths));
  std::int64_t t = starts->back(), wide = s.heads * s.head_dim, narrow = s.kv_heads * s.head_dim;
  if (s.scale == 1) s.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  Case c{fmt::format("attention T={} docs={} H={}/{} E={} window={} cap={}{}", t, lengths.size(), s.heads, s.kv_heads,
                     s.head_dim, s.window, s.softcap, s.slopes ? " slopes" : ""),
         {{t, wide}, {t, narrow}, {t, narrow}},
         {{t, wide}, {t, s.heads}},
         {},
         {},
         {}};
  c.forward = [=](const Mats& in, const Mats& out, Arena&) {
    attention(s, in[0], in[1], in[2], *starts, out[0], out[1]);
  };
  c.backward = [=](const Mats& in, const Mats& out, const Mats& dout, const Mats& din, Arena& scratch) {
    attention_backward(s, dout[0], in[0], in[1], in[2], out[0], out[1], *starts, din[0], din[1], din[2], scratch);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values out(static_cast<std::size_t>(t * wide)), lse(static_cast<std::size_t>(t * s.heads));
    std::vector<double> p;
    for (std::size_t d = 0; d + 1 < starts->size(); ++d)
      for (std::int64_t i = (*starts)[d]; i < (*starts)[d + 1]; ++i)
        for (std::int64_t h = 0; h < s.heads; ++h) {
          std::int64_t first = (*starts)[d], kv = h / (s.heads / s.kv_heads);
          if (s.window > 0) first = std::max(first, i - s.window + 1);
          p.assign(static_cast<std::size_t>(i - first + 1), 0);
          double top = -1e300, sum = 0;
          for (std::int64_t j = first; j <= i; ++j) {
            double dot = 0;
            for (std::int64_t l = 0; l < s.head_dim; ++l)
              dot += in[0][static_cast<std::size_t>(i * wide + h * s.head_dim + l)] *
                     in[1][static_cast<std::size_t>(j * narrow + kv * s.head_dim + l)];
            dot *= s.scale;
            if (s.slopes) dot -= static_cast<double>(s.slopes[h]) * static_cast<double>(i - j);
            if (s.softcap > 0) dot = s.softcap * std::tanh(dot / s.softcap);
            p[static_cast<std::size_t>(j - first)] = dot;
            top = std::max(top, dot);
          }
          for (double& v : p) sum += v = std::exp(v - top);
          for (std::int64_t j = first; j <= i; ++j)
            for (std::int64_t l = 0; l < s.head_dim; ++l)
              out[static_cast<std::size_t>(i * wide + h * s.head_dim + l)] +=
                  p[static_cast<std::size_t>(j - first)] / sum *
                  in[2][static_cast<std::size_t>(j * narrow + kv * s.head_dim + l)];
          lse[static_cast<std::size_t>(i * s.heads + h)] = top + std::log(sum);
        }
    return std::vector<Values>{out, lse};
  };
  double pairs = 0;
  for (auto n : lengths)
    for (std::int64_t i = 0; i < n; ++i) pairs += static_cast<double>(s.window > 0 ? std::min(i + 1, s.window) : i + 1);
  c.forward_flops = 4 * pairs * static_cast<double>(wide);
  c.backward_flops = 10 * pairs * static_cast<double>(wide);
  return c;
}

inline Case loss(std::int64_t n, std::int64_t d, std::int64_t vocabulary, float softcap = 0, bool train_head = true,
                 bool biased = false) {
  Case c{fmt::format("cross_entropy N={} D={} V={} cap={}{}{}", n, d, vocabulary, softcap,
                     train_head ? "" : " frozen head", biased ? " bias" : ""),
         {{n, d}, {vocabulary, d, 0.3f}, {1, vocabulary}},
         {{n, 1}},
         {},
         {},
         {}};
  auto labels = std::make_shared<std::vector<Token>>();
  for (std::int64_t i = 0; i < n; ++i) labels->push_back(static_cast<Token>((i * 7919 + 3) % vocabulary));
  c.forward = [=](const Mats& in, const Mats& out, Arena& scratch) {
    cross_entropy({in[0], {*labels, out[0].flat()}, softcap, {biased ? in[2].data : nullptr}},
                  WholeHead{weight_of(in[1])}, scratch);
  };
  // The gradient of the sum only: the test feeds ones.
  c.backward = [=](const Mats& in, const Mats&, const Mats&, const Mats& din, Arena& scratch) {
    cross_entropy({in[0], {*labels}, softcap, biased ? HeadBias{in[2].data, din[2].data} : HeadBias{}, din[0]},
                  WholeHead{weight_of(in[1]), train_head ? din[1] : Mat{}, Write::set}, scratch);
  };
  c.reference = [=](const std::vector<Values>& in) {
    Values losses(static_cast<std::size_t>(n)), x(static_cast<std::size_t>(vocabulary));
    for (std::int64_t i = 0; i < n; ++i) {
      double top = -1e300, sum = 0;
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        double s = 0;
        for (std::int64_t l = 0; l < d; ++l)
          s += in[0][static_cast<std::size_t>(i * d + l)] * in[1][static_cast<std::size_t>(j * d + l)];
        if (biased) s += in[2][static_cast<std::size_t>(j)];
        if (softcap > 0) s = softcap * std::tanh(s / softcap);
        x[static_cast<std::size_t>(j)] = s;
        top = std::max(top, s);
      }
      for (double v : x) sum += std::exp(v - top);
      losses[static_cast<std::size_t>(i)] =
          top + std::log(sum) - x[static_cast<std::size_t>((*labels)[static_cast<std::size_t>(i)])];
    }
    return std::vector<Values>{losses};
  };
  double product = 2.0 * static_cast<double>(n * d * vocabulary);
  c.forward_flops = product;
  c.backward_flops = product * (train_head ? 3 : 2);
  return c;
}

}  // namespace dml::kernels::cases
