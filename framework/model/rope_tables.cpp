#include "model/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/error.h"
#include "core/parallel.h"

namespace dml {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr std::int64_t kRowsPerTask = 64;

// YaRN (Peng et al. 2023): the dimension that makes `rotations` full rotations over the original context.
double correction_dimension(double rotations, std::int64_t dim, double theta, std::int64_t original) {
  return static_cast<double>(dim) * std::log(static_cast<double>(original) / (rotations * kTwoPi)) /
         (2 * std::log(theta));
}

// Frequencies and angles are float32, as in transformers.
void fill_row(std::int64_t position, std::span<const double> inverse, double factor, float* cos, float* sin) {
  for (std::size_t j = 0; j < inverse.size(); ++j) {
    const float angle = static_cast<float>(position) * static_cast<float>(inverse[j]);
    cos[j] = static_cast<float>(std::cos(static_cast<double>(angle)) * factor);
    sin[j] = static_cast<float>(std::sin(static_cast<double>(angle)) * factor);
  }
}

// Llama 3.1: low frequencies are divided by the factor, high ones are kept, and those between are interpolated.
void scale_llama3(const RopeSpec& rope, double original, std::span<double> inv) {
  const double low = original / rope.low_freq_factor, high = original / rope.high_freq_factor;
  for (double& f : inv) {
    const double wave = kTwoPi / f;
    if (wave > low) {
      f /= rope.factor;
    } else if (wave >= high) {
      const double smooth = (original / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      f = (1 - smooth) * f / rope.factor + smooth * f;
    }
  }
}

void scale_yarn(const RopeSpec& rope, std::int64_t dim, double theta, std::int64_t original, std::span<double> inv) {
  double low = correction_dimension(rope.beta_fast, dim, theta, original);
  double high = correction_dimension(rope.beta_slow, dim, theta, original);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t j = 0; j < inv.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    inv[j] = inv[j] / rope.factor * ramp + inv[j] * (1 - ramp);
  }
}

}  // namespace

double rope_frequencies(const RopeSpec& rope, std::int64_t max_positions, std::int64_t length, std::span<double> inv,
                        std::int64_t rotary) {
  const std::int64_t dim = rotary > 0 ? rotary : 2 * std::ssize(inv);
  double attention_factor = 1;
  double theta = rope.theta;
  std::int64_t original = rope.original_positions > 0 ? rope.original_positions : max_positions;
  if (rope.scaling == RopeScaling::dynamic && length > max_positions) {
    double grown = rope.factor * static_cast<double>(length) / static_cast<double>(max_positions) - (rope.factor - 1);
    theta *= std::pow(grown, static_cast<double>(dim) / static_cast<double>(dim - 2));
  }
  for (std::size_t j = 0; j < inv.size(); ++j)
    inv[j] = std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(dim));

  switch (rope.scaling) {
    case RopeScaling::none:
    case RopeScaling::dynamic:
      break;
    case RopeScaling::linear:
      for (double& f : inv) f /= rope.factor;
      break;
    case RopeScaling::llama3:
      scale_llama3(rope, static_cast<double>(original), inv);
      break;
    case RopeScaling::yarn:
      scale_yarn(rope, dim, theta, original, inv);
      attention_factor = rope.attention_factor > 0 ? rope.attention_factor
                         : rope.factor > 1         ? 0.1 * std::log(rope.factor) + 1
                                                   : 1;
      break;
    case RopeScaling::longrope: {
      const auto& factors = length > original ? rope.long_factor : rope.short_factor;
      DML_CHECK(factors.size() == inv.size(), "longrope: {} factors for {} frequencies", factors.size(), inv.size());
      for (std::size_t j = 0; j < inv.size(); ++j) inv[j] /= factors[j];
      attention_factor = rope.attention_factor > 0 ? rope.attention_factor
                         : rope.factor <= 1
                             ? 1
                             : std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(original)));
      break;
    }
  }
  return attention_factor;
}

std::int64_t rope_switch(const RopeSpec& rope, std::int64_t max_positions) {
  if (rope.scaling == RopeScaling::dynamic) return max_positions;
  if (rope.scaling == RopeScaling::longrope)
    return rope.original_positions > 0 ? rope.original_positions : max_positions;
  return std::numeric_limits<std::int64_t>::max();
}

RopeTables::RopeTables(const ModelSpec& spec, std::int64_t length)
    : length_(length), interleaved_(spec.rope.interleaved) {
  if (spec.positions != Positions::rope) return;
  full_ = make(spec.rope, spec);
  if (spec.rope_local) local_ = make(*spec.rope_local, spec);
}

RopeTables::Table RopeTables::make(const RopeSpec& rope, const ModelSpec& spec) const {
  Table t;
  t.rope = rope;
  t.max_positions = spec.max_positions;
  t.dim = spec.rotary_dim(rope);
  t.half = spec.rotary_pairs(rope);
  t.last = rope_switch(rope, spec.max_positions);
  // longrope: rows for short documents, followed by those for long ones. With dynamic NTK every length has its own
  // rows, which angles() computes for the documents of a pass.
  t.add_rows(std::min(length_, t.last), std::min(length_, t.last));
  if (length_ > t.last && rope.scaling == RopeScaling::longrope) t.add_rows(length_, length_);
  return t;
}

void RopeTables::Table::add_rows(std::int64_t count, std::int64_t length) {
  std::vector<double> inverse(static_cast<std::size_t>(half));
  const double factor = rope_frequencies(rope, max_positions, length, inverse, dim);
  const std::size_t before = cos.size();
  cos.resize(before + static_cast<std::size_t>(count * half));
  sin.resize(cos.size());
  for (std::int64_t p = 0; p < count; ++p) {
    const std::size_t row = before + static_cast<std::size_t>(p * half);
    fill_row(p, inverse, factor, &cos[row], &sin[row]);
  }
}

kernels::RopeAngles RopeTables::angles(const Table& t, std::span<const std::int32_t> positions,
                                       std::span<const RopeDocument> documents, Arena& arena) const {
  const auto stored = t.half == 0 ? 0 : static_cast<std::int64_t>(t.cos.size()) / t.half;
  const kernels::RopeTable table{{t.cos.data(), stored, t.half}, {t.sin.data(), stored, t.half}, interleaved_};
  if (length_ <= t.last) return {table, positions};
  const auto tokens = std::ssize(positions);
  std::span<std::int32_t> rows = arena.take<std::int32_t>(tokens);
  if (t.rope.scaling == RopeScaling::longrope) {
    if (dry_run()) return {table, rows};
    for (const RopeDocument& d : documents)
      for (std::int64_t i = d.first; i < d.first + d.count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        rows[at] = positions[at] + static_cast<std::int32_t>(d.length > t.last ? t.last : 0);
      }
    return {table, rows};
  }
  const Mat cos = arena.matrix(tokens, t.half), sin = arena.matrix(tokens, t.half);
  std::span<double> inverse = arena.take<double>(t.half);
  if (dry_run()) return {{cos, sin, interleaved_}, rows};
  std::iota(rows.begin(), rows.end(), 0);
  for (const RopeDocument& d : documents) {
    const double factor = rope_frequencies(t.rope, t.max_positions, d.length, inverse, t.dim);
    parallel_ranges(d.count, kRowsPerTask, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = d.first + first; i < d.first + last; ++i)
        fill_row(positions[static_cast<std::size_t>(i)], inverse, factor, cos.row(i), sin.row(i));
    });
  }
  return {{cos, sin, interleaved_}, rows};
}

}  // namespace dml
