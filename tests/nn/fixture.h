// What the tests of nn share: random values, blocks put together from a parameter store, and derivatives by
// differences.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/random.h"
#include "nn/decoder_layer.h"

namespace dml::fixture {

/// Values that live as long as the fixture: frozen weights, inputs, gradients.
class Values {
 public:
  explicit Values(std::uint64_t seed) : seed_(seed) {}
  Mat random(std::int64_t rows, std::int64_t cols, float spread = 1, float middle = 0) {
    Mat m = zeros(rows, cols);
    Random r(seed_, Purpose::init, next_++);
    for (std::int64_t i = 0; i < m.size(); ++i) m.data[i] = middle + spread * r.normal(static_cast<std::uint64_t>(i));
    return m;
  }
  Mat zeros(std::int64_t rows, std::int64_t cols) {
    owned_.emplace_back(static_cast<std::size_t>(rows * cols), 0.f);
    return {owned_.back().data(), rows, cols};
  }

 private:
  std::uint64_t seed_, next_ = 0;
  std::deque<std::vector<float>> owned_;
};

/// Every activation in bf16.
inline constexpr SavePolicy kRounded{.norm_inputs = DType::bf16, .intermediates = DType::bf16};

/// |a − b| / |b|.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(apart / size);
}

/// Two documents, 4 and 3 tokens long.
struct Documents {
  std::vector<Token> tokens = std::vector<Token>(7, 0), labels = tokens;
  std::vector<std::int32_t> positions{0, 1, 2, 3, 0, 1, 2}, starts{0, 4, 7};
  PackedBatch view() const { return {tokens, labels, positions, starts}; }
  static constexpr std::int64_t kTokens = 7;
};

/// Parameters of one unit with their gradients; declare all, then bind().
class Trained {
 public:
  Trained() { store_.create_units({"unit"}); }
  ParameterRef add(const std::string& name, std::vector<std::int64_t> shape, float spread = 0.3f, float middle = 0) {
    spreads_.push_back({spread, middle});
    return store_.add(0, name, std::move(shape), false);
  }
  void bind(std::uint64_t seed) {
    store_.allocate();
    gradient_.assign(static_cast<std::size_t>(unit().size), 0.f);
    unit().grad = gradient_.data();
    for (std::size_t i = 0; i < unit().parameters.size(); ++i) {
      const Parameter& p = unit().parameters[i];
      Random r(seed, Purpose::adapter, i);
      for (std::int64_t k = 0; k < p.size(); ++k)
        unit().value.floats()[p.offset + k] =
            spreads_[i].second + spreads_[i].first * r.normal(static_cast<std::uint64_t>(k));
    }
  }
  Unit& unit() { return store_.units()[0]; }
  void zero() { std::fill(gradient_.begin(), gradient_.end(), 0.f); }
  const std::vector<float>& gradient() const { return gradient_; }

 private:
  ParameterStore store_;
  std::vector<std::pair<float, float>> spreads_;
  std::vector<float> gradient_;
};

/// Σ weights · y in double: a scalar whose gradient with respect to y is `weights`.
inline double weighed(ConstMat y, ConstMat weights) {
  double sum = 0;
  for (std::int64_t i = 0; i < y.size(); ++i)
    sum += static_cast<double>(y.data[i]) * static_cast<double>(weights.data[i]);
  return sum;
}

/// Compares `gradient` with (f(v + h) − f(v − h)) / 2h for every value of `v`. The scalar comes out of float32
/// arithmetic, so the bound is a share of the largest derivative.
inline void expect_derivatives(std::span<float> v, std::span<const float> gradient,
                               const std::function<double()>& scalar, const std::string& what, double bound = 4e-3) {
  ASSERT_EQ(v.size(), gradient.size()) << what;
  std::vector<double> measured;
  double top = 1e-3;
  for (float& x : v) {
    const float before = x, h = 4e-3f;
    x = before + h;
    double step = x, above = scalar();
    x = before - h;
    step -= x;
    double below = scalar();
    x = before;
    measured.push_back((above - below) / step);
    top = std::max(top, std::abs(measured.back()));
  }
  for (std::size_t i = 0; i < v.size(); ++i)
    ASSERT_NEAR(gradient[i], measured[i], bound * top) << what << ", element " << i << " of " << v.size();
}

/// Every parameter of the unit.
inline void expect_parameter_derivatives(Trained& trained, const std::function<double()>& scalar) {
  for (const Parameter& p : trained.unit().parameters) {
    std::span<float> value(trained.unit().value.floats() + p.offset, static_cast<std::size_t>(p.size()));
    auto gradient = std::span(trained.gradient()).subspan(static_cast<std::size_t>(p.offset), value.size());
    expect_derivatives(value, gradient, scalar, p.name);
  }
}

}  // namespace dml::fixture
