#include "model/low_rank_init.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/rounding.h"
#include "kernels/gemm.h"
#include "kernels/quant_nf4.h"

namespace dml {
namespace {

constexpr std::int64_t kWhole = 128;  // matrices with a side up to this are decomposed directly
constexpr int kMaxRounds = 100;
constexpr double kSettled = 1e-9;  // convergence: relative change of the captured energy
// A matrix is diagonal if the sum of the squares off its diagonal is at most this share of the sum on it. Rounding
// errors leave about 1e-28 with 128 columns.
constexpr double kDiagonal = 1e-26;

struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> values = std::vector<double>(static_cast<std::size_t>(rows * cols));
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
};

double dot(const float* x, const float* y, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * y[i];
  return sum;
}

// Gram–Schmidt on the rows, applied twice because of rounding errors. A zero row stays zero.
void orthonormalize(Mat x) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double before = std::sqrt(dot(x.row(r), x.row(r), x.cols));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t p = 0; p < r; ++p) {
        auto overlap = static_cast<float>(dot(x.row(r), x.row(p), x.cols));
        for (std::int64_t c = 0; c < x.cols; ++c) x.row(r)[c] -= overlap * x.row(p)[c];
      }
    double norm = std::sqrt(dot(x.row(r), x.row(r), x.cols));
    auto scale = static_cast<float>(norm > 1e-6 * before ? 1 / norm : 0);
    for (std::int64_t c = 0; c < x.cols; ++c) x.row(r)[c] *= scale;
  }
}

// Cyclic Jacobi rotations: leaves the eigenvalues of a symmetric matrix on its diagonal and returns the eigenvectors as
// rows.
Matrix diagonalise(Matrix& m) {
  const std::int64_t n = m.rows;
  Matrix vectors{n, n};
  for (std::int64_t i = 0; i < n; ++i) vectors.at(i, i) = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, on = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) (i == j ? on : off) += m.at(i, j) * m.at(i, j);
    if (off <= kDiagonal * on) break;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        if (m.at(p, q) == 0) continue;
        double theta = (m.at(q, q) - m.at(p, p)) / (2 * m.at(p, q));
        double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        double cosine = 1 / std::sqrt(t * t + 1), sine = t * cosine;
        for (std::int64_t k = 0; k < n; ++k) {
          double x = m.at(k, p), y = m.at(k, q);
          m.at(k, p) = cosine * x - sine * y, m.at(k, q) = sine * x + cosine * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          double x = m.at(p, k), y = m.at(q, k);
          m.at(p, k) = cosine * x - sine * y, m.at(q, k) = sine * x + cosine * y;
          x = vectors.at(p, k), y = vectors.at(q, k);
          vectors.at(p, k) = cosine * x - sine * y, vectors.at(q, k) = sine * x + cosine * y;
        }
      }
  }
  return vectors;
}

// The r largest singular values by block iteration: the span of v converges to the leading right singular vectors;
// within it, a small symmetric matrix is diagonalised (Rayleigh–Ritz). A matrix with a short side is spanned
// completely.
LowRankFactors pissa(ConstMat w, std::int64_t r, double scale) {
  const std::int64_t side = std::min(w.rows, w.cols), width = side <= kWhole ? side : std::min(side, 2 * r + 16);
  std::vector<float> span(static_cast<std::size_t>(width * w.cols)), image(static_cast<std::size_t>(width * w.rows));
  Mat v{span.data(), width, w.cols}, z{image.data(), width, w.rows};
  Random(0, Purpose::adapter, 0x50695353).normals(0, span);
  const kernels::Weight weight = kernels::weight_of(w);
  double found = 0;
  for (int round = 0;; ++round) {
    kernels::gemm_nt(v, weight, z, Write::set);
    kernels::gemm_nn(z, weight, v, Write::set);
    orthonormalize(v);
    kernels::gemm_nt(v, weight, z, Write::set);
    Matrix gram{width, width};
    parallel_for(width, [&](std::int64_t i) {
      for (std::int64_t j = 0; j < width; ++j)
        gram.at(i, j) = dot(z.row(std::min(i, j)), z.row(std::max(i, j)), w.rows);
    });
    Matrix vectors = diagonalise(gram);
    std::vector<std::int64_t> order(static_cast<std::size_t>(width));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](auto i, auto j) { return gram.at(i, i) > gram.at(j, j); });
    double energy = 0;
    for (std::int64_t k = 0; k < r; ++k)
      energy += gram.at(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(k)]);
    const bool complete = width == side;  // the span holds all singular vectors
    const bool settled = complete || std::abs(energy - found) <= kSettled * energy || round >= kMaxRounds;
    found = energy;
    if (!settled) continue;

    LowRankFactors out{std::vector<float>(static_cast<std::size_t>(r * w.cols)),
                       std::vector<float>(static_cast<std::size_t>(w.rows * r))};
    parallel_for(r, [&](std::int64_t k) {
      std::int64_t e = order[static_cast<std::size_t>(k)];
      double sigma = std::sqrt(std::max(0.0, gram.at(e, e)));
      double a = std::sqrt(sigma / scale), b = sigma > 0 ? a / sigma : 0;
      for (std::int64_t c = 0; c < w.cols; ++c) {
        double sum = 0;
        for (std::int64_t i = 0; i < width; ++i) sum += vectors.at(e, i) * v.row(i)[c];
        out.a[static_cast<std::size_t>(k * w.cols + c)] = static_cast<float>(a * sum);
      }
      for (std::int64_t o = 0; o < w.rows; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < width; ++i) sum += vectors.at(e, i) * z.row(i)[o];
        out.b[static_cast<std::size_t>(o * r + k)] = static_cast<float>(b * sum);
      }
    });
    return out;
  }
}

// Q and R up to signs, which cancel in BA. They depend on the first r columns of W only.
LowRankFactors olora(ConstMat w, std::int64_t r) {
  std::vector<float> columns(static_cast<std::size_t>(r * w.rows));
  for (std::int64_t k = 0; k < r; ++k)
    for (std::int64_t o = 0; o < w.rows; ++o) columns[static_cast<std::size_t>(k * w.rows + o)] = w.row(o)[k];
  Mat q{columns.data(), r, w.rows};
  orthonormalize(q);
  LowRankFactors out{std::vector<float>(static_cast<std::size_t>(r * w.cols)), std::vector<float>(columns.size())};
  kernels::gemm_nn(q, kernels::weight_of(w), {out.a.data(), r, w.cols}, Write::set);
  for (std::int64_t k = 0; k < r; ++k)
    for (std::int64_t o = 0; o < w.rows; ++o) out.b[static_cast<std::size_t>(o * r + k)] = q.row(k)[o];
  return out;
}

// w -= scale · BA.
void take_away(const LowRankFactors& start, std::int64_t r, double scale, Mat w) {
  parallel_ranges(w.rows, 64, [&](std::int64_t first, std::int64_t last) {
    kernels::sgemm_tile(false, false, last - first, w.cols, r, static_cast<float>(-scale), start.b.data() + first * r,
                        r, start.a.data(), w.cols, 1, w.row(first), w.cols);
  });
}

// Rounds w to the values of NF4.
void round_to_nf4(std::span<float> w) {
  std::vector<std::uint8_t> codes((w.size() + 1) / 2);
  std::vector<float> scales(static_cast<std::size_t>(ceil_div(std::ssize(w), kernels::kNf4Block)));
  kernels::quantize_nf4(w, codes, scales);
  kernels::dequantize_nf4(codes, scales, w);
}

LowRankFactors loftq(Mat w, std::int64_t r, std::int64_t iterations) {
  const std::vector<float> whole(w.data, w.data + w.size());
  std::vector<float> rest(whole.size());
  Mat left{rest.data(), w.rows, w.cols};
  for (std::int64_t i = 0;; ++i) {
    round_to_nf4(w.flat());
    for (std::size_t k = 0; k < rest.size(); ++k) rest[k] = whole[k] - w.data[k];
    LowRankFactors start = pissa(left, r, 1);
    if (i + 1 == iterations) return start;
    std::ranges::copy(whole, w.data);
    take_away(start, r, 1, w);
  }
}

}  // namespace

bool starts_from_base(const std::string& init) { return init == "pissa" || init == "olora" || init == "loftq"; }

LowRankFactors extract_low_rank(const std::string& init, Mat w, std::int64_t r, double scale,
                                std::int64_t loftq_iterations) {
  DML_CHECK(starts_from_base(init) && r <= std::min(w.rows, w.cols));
  if (init == "loftq") return loftq(w, r, loftq_iterations);
  LowRankFactors start = init == "pissa" ? pissa(w, r, scale) : olora(w, r);
  take_away(start, r, scale, w);
  return start;
}

}  // namespace dml
