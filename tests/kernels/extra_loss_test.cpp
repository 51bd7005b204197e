// Label smoothing and z-loss in the loss head: values and gradients against a slow one in double precision, and the
// same bits from a head in parts.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cross_entropy.h"
#include "kernels/values.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kD = 24, kV = 1000;

struct Problem {
  std::int64_t n;
  float softcap;
  ExtraLoss extra;
  std::vector<float> h, w;
  std::vector<Token> labels;

  Problem(std::int64_t rows, float cap, ExtraLoss more)
      : n(rows), softcap(cap), extra(more), h(values(static_cast<std::size_t>(rows * kD), 1)), w(values(kV * kD, 2)) {
    for (std::int64_t i = 0; i < n; ++i) labels.push_back(static_cast<Token>(i * 37 % kV));
  }

  /// The extra loss of all rows, and the gradient of all losses by the logits before the soft cap, from the
  /// definitions.
  double reference(std::vector<double>& dlogits) const {
    double sum = 0;
    dlogits.assign(static_cast<std::size_t>(n * kV), 0);
    const double eps = static_cast<double>(extra.label_smoothing), c = static_cast<double>(extra.z_loss),
                 cap = static_cast<double>(softcap);
    for (std::int64_t i = 0; i < n; ++i) {
      std::vector<double> x(kV), slope(kV, 1);
      double total = 0, mean = 0;
      for (std::int64_t j = 0; j < kV; ++j) {
        auto& at = x[static_cast<std::size_t>(j)];
        for (std::int64_t k = 0; k < kD; ++k)
          at += static_cast<double>(h[static_cast<std::size_t>(i * kD + k)]) *
                static_cast<double>(w[static_cast<std::size_t>(j * kD + k)]);
        if (cap > 0) {
          const double t = std::tanh(at / cap);
          at = cap * t, slope[static_cast<std::size_t>(j)] = 1 - t * t;
        }
        total += std::exp(at), mean += at / kV;
      }
      const double lse = std::log(total);
      const auto label = static_cast<std::size_t>(labels[static_cast<std::size_t>(i)]);
      double smooth = 0;  // mean of −log p
      for (double v : x) smooth += (lse - v) / kV;
      sum += eps * (smooth - (lse - x[label])) + c * lse * lse;
      for (std::size_t j = 0; j < x.size(); ++j) {
        const double p = std::exp(x[j] - lse);
        dlogits[static_cast<std::size_t>(i * kV) + j] =
            slope[j] * ((1 - eps) * (p - (j == label)) + eps * (p - 1.0 / kV) + 2 * c * lse * p);
      }
    }
    return sum;
  }
};

Mat of(std::vector<float>& all, std::int64_t rows) { return {all.data(), rows, kD}; }

TEST(ExtraLoss, ValuesAndGradientsAreThoseOfTheDefinitions) {
  for (const float softcap : {0.f, 5.f})
    for (const ExtraLoss extra : {ExtraLoss{.label_smoothing = 0.1f}, ExtraLoss{.z_loss = 1e-2f},
                                  ExtraLoss{.label_smoothing = 0.3f, .z_loss = 1e-3f}}) {
      Problem p(40, softcap, extra);
      std::vector<double> dlogits;
      const double want = p.reference(dlogits);
      std::vector<float> losses(40), plain(40), dh(p.h.size()), dw(p.w.size());
      Arena arena(std::size_t{64} << 20);
      const double nll =
          cross_entropy({of(p.h, 40), {p.labels, plain}, softcap}, WholeHead{weight_of(of(p.w, kV))}, arena);
      ExtraLoss found = extra;
      EXPECT_EQ(cross_entropy({of(p.h, 40), {p.labels, losses, {}, {}, &found}, softcap, {}, of(dh, 40)},
                              WholeHead{weight_of(of(p.w, kV)), of(dw, kV), Write::set}, arena),
                nll);
      EXPECT_EQ(losses, plain);  // of rows: always the cross-entropy alone
      EXPECT_NEAR(found.sum, want, 1e-5 * std::fabs(want));
      for (std::size_t i = 0; i < 40; ++i)
        for (std::size_t k = 0; k < kD; ++k) {
          double d = 0;
          for (std::size_t j = 0; j < kV; ++j) d += dlogits[i * kV + j] * static_cast<double>(p.w[j * kD + k]);
          ASSERT_NEAR(dh[i * kD + k], d, 2e-5) << softcap << " row " << i;
        }
      for (std::size_t j = 0; j < kV; j += 13)
        for (std::size_t k = 0; k < kD; ++k) {
          double d = 0;
          for (std::size_t i = 0; i < 40; ++i) d += dlogits[i * kV + j] * static_cast<double>(p.h[i * kD + k]);
          ASSERT_NEAR(dw[j * kD + k], d, 2e-5) << softcap << " token " << j;
        }
    }
}

// The gradient is that of the value: a step along a direction changes the sum of all losses by their product.
TEST(ExtraLoss, GradientIsTheSlopeOfTheValue) {
  for (const float softcap : {0.f, 5.f}) {
    Problem p(16, softcap, {.label_smoothing = 0.2f, .z_loss = 1e-2f});
    Arena arena(std::size_t{64} << 20);
    std::vector<float> dh(p.h.size());
    auto total = [&](std::vector<float>& h, Mat gradient) {
      ExtraLoss extra = p.extra;
      const double nll = cross_entropy({of(h, 16), {p.labels, {}, {}, {}, &extra}, softcap, {}, gradient},
                                       WholeHead{weight_of(of(p.w, kV))}, arena);
      return nll + extra.sum;
    };
    total(p.h, of(dh, 16));
    const auto direction = values(p.h.size(), 7);
    constexpr float kStep = 1e-2f;
    std::vector<float> up = p.h, down = p.h;
    double slope = 0;
    for (std::size_t i = 0; i < up.size(); ++i) {
      up[i] += kStep * direction[i], down[i] -= kStep * direction[i];
      slope += static_cast<double>(dh[i]) * static_cast<double>(direction[i]);
    }
    EXPECT_NEAR((total(up, {}) - total(down, {})) / (2 * static_cast<double>(kStep)), slope, 2e-3 * std::fabs(slope));
  }
}

// 1200 rows are three chunks, two of which are computed twice.
TEST(ExtraLoss, OfAHeadInPartsHasTheBitsOfTheWhole) {
  const std::vector<std::int64_t> starts{0, 448, 896, kV};
  for (const std::int64_t n : {5, 1200})
    for (const float softcap : {0.f, 5.f}) {
      Problem p(n, softcap, {.label_smoothing = 0.1f, .z_loss = 1e-3f});
      std::vector<float> dh(p.h.size()), dh_parts(p.h.size()), dw(p.w.size()), dw_parts(p.w.size());
      Arena arena(std::size_t{64} << 20);
      ExtraLoss whole = p.extra, parts = p.extra;
      const double sum = cross_entropy({of(p.h, n), {p.labels, {}, {}, {}, &whole}, softcap, {}, of(dh, n)},
                                       WholeHead{weight_of(of(p.w, kV)), of(dw, kV)}, arena);
      auto rows = [&](std::vector<float>& all, std::size_t k) {
        return of(all, kV).slice(starts[k], starts[k + 1] - starts[k]);
      };
      const HeadParts head{starts,
                           [&](std::size_t k, bool gradient) -> HeadParts::Rows {
                             return {weight_of(rows(p.w, k)), gradient ? rows(dw_parts, k) : Mat{}};
                           },
                           [](std::size_t) {}};
      EXPECT_EQ(cross_entropy({of(p.h, n), {p.labels, {}, {}, {}, &parts}, softcap, {}, of(dh_parts, n)}, head, arena),
                sum);
      EXPECT_EQ(parts.sum, whole.sum);
      EXPECT_EQ(dh_parts, dh);
      EXPECT_EQ(dw_parts, dw);
    }
}

}  // namespace
}  // namespace dml::kernels
