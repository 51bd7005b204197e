#include "model/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace dml {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// YaRN (Peng et al. 2023): the dimension whose wave turns `rotations` times over the original context.
double correction_dimension(double rotations, std::int64_t dim, double theta, std::int64_t original) {
  return static_cast<double>(dim) * std::log(static_cast<double>(original) / (rotations * kTwoPi)) /
         (2 * std::log(theta));
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t head_dim, std::int64_t max_positions,
                                     std::int64_t length, double& attention_factor) {
  auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.partial) / 2 * 2;
  attention_factor = 1;
  double theta = rope.theta;
  std::int64_t original = rope.original_positions > 0 ? rope.original_positions : max_positions;
  if (rope.scaling == RopeScaling::dynamic && length > max_positions) {
    double grown = rope.factor * static_cast<double>(length) / static_cast<double>(max_positions) - (rope.factor - 1);
    theta *= std::pow(grown, static_cast<double>(dim) / static_cast<double>(dim - 2));
  }
  std::vector<double> inv(static_cast<std::size_t>(dim / 2));
  for (std::size_t j = 0; j < inv.size(); ++j)
    inv[j] = std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(dim));

  switch (rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::dynamic:
      break;
    case RopeScaling::linear:
      for (double& f : inv) f /= rope.factor;
      break;
    case RopeScaling::llama3: {
      double low = static_cast<double>(original) / rope.low_freq_factor,
             high = static_cast<double>(original) / rope.high_freq_factor;
      for (double& f : inv) {
        double wave = kTwoPi / f;
        if (wave > low) {
          f /= rope.factor;
        } else if (wave >= high) {
          double smooth = (static_cast<double>(original) / wave - rope.low_freq_factor) /
                          (rope.high_freq_factor - rope.low_freq_factor);
          f = (1 - smooth) * f / rope.factor + smooth * f;
        }
      }
      break;
    }
    case RopeScaling::yarn: {
      double low = correction_dimension(rope.beta_fast, dim, theta, original);
      double high = correction_dimension(rope.beta_slow, dim, theta, original);
      if (rope.truncate) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0);
      high = std::min(high, static_cast<double>(dim - 1));
      if (low == high) high += 0.001;
      for (std::size_t j = 0; j < inv.size(); ++j) {
        double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
        inv[j] = inv[j] / rope.factor * ramp + inv[j] * (1 - ramp);
      }
      attention_factor = rope.attention_factor > 0 ? rope.attention_factor
                         : rope.factor > 1         ? 0.1 * std::log(rope.factor) + 1
                                                   : 1;
      break;
    }
    case RopeScaling::longrope: {
      const auto& factors = length > original ? rope.long_factor : rope.short_factor;
      DML_CHECK(factors.size() == inv.size(), "longrope: {} factors for {} frequencies", factors.size(), inv.size());
      for (std::size_t j = 0; j < inv.size(); ++j) inv[j] /= factors[j];
      double scale = rope.factor > 1 ? rope.factor : static_cast<double>(max_positions) / static_cast<double>(original);
      attention_factor = rope.attention_factor > 0 ? rope.attention_factor
                         : scale <= 1              ? 1
                                      : std::sqrt(1 + std::log(scale) / std::log(static_cast<double>(original)));
      break;
    }
  }
  return inv;
}

RopeTables::RopeTables(const ModelSpec& spec, std::int64_t length) : length_(length) {
  if (!spec.use_rope) return;
  full_ = make(spec.rope, spec);
  if (spec.has_local_rope) local_ = make(spec.rope_local, spec);
}

RopeTables::Table RopeTables::make(const RopeSpec& rope, const ModelSpec& spec) const {
  double factor = 1;
  auto inv = rope_frequencies(rope, spec.head_dim, spec.max_positions, length_, factor);
  Table t;
  t.half = static_cast<std::int64_t>(inv.size());
  t.cos.resize(static_cast<std::size_t>(length_) * inv.size());
  t.sin.resize(t.cos.size());
  for (std::int64_t p = 0; p < length_; ++p)
    for (std::size_t j = 0; j < inv.size(); ++j) {
      // Frequencies are float32 in the reference implementation; so is the angle.
      float angle = static_cast<float>(p) * static_cast<float>(inv[j]);
      std::size_t i = static_cast<std::size_t>(p) * inv.size() + j;
      t.cos[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * factor);
      t.sin[i] = static_cast<float>(std::sin(static_cast<double>(angle)) * factor);
    }
  return t;
}

}  // namespace dml
