#include "kernels/eigen.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/profile.h"

// Fortran's LAPACK; matrices are column-major.
extern "C" {
void dsyrk_(const char* uplo, const char* trans, const int* n, const int* k, const double* alpha, const double* a,
            const int* lda, const double* beta, double* c, const int* ldc);
void dsyevr_(const char* jobz, const char* range, const char* uplo, const int* n, double* a, const int* lda,
             const double* vl, const double* vu, const int* il, const int* iu, const double* abstol, int* m, double* w,
             double* z, const int* ldz, int* isuppz, double* work, const int* lwork, int* iwork, const int* liwork,
             int* info);
}

namespace dml::kernels {

void leading_singular_vectors(ConstMat g, bool transposed, std::int64_t count, float* out) {
  ProfileScope profiled("singular_vectors");
  const int n = static_cast<int>(transposed ? g.rows : g.cols), k = static_cast<int>(transposed ? g.cols : g.rows),
            first = n - static_cast<int>(count) + 1;
  DML_CHECK(count > 0 && count <= n);
  const std::vector<double> values(g.data, g.data + g.size());
  std::vector<double> gram(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  const double one = 1, zero = 0;
  // In column-major order, g's memory is a (cols, rows) matrix a, and gᵀg = a·aᵀ.
  const int lda = static_cast<int>(g.cols);
  dsyrk_("U", transposed ? "T" : "N", &n, &k, &one, values.data(), &lda, &zero, gram.data(), &n);

  int found = 0, info = 0, lwork = -1, liwork = -1, isize = 0;
  double size = 0;
  std::vector<double> eigenvalues(static_cast<std::size_t>(n)), vectors(static_cast<std::size_t>(n * count));
  std::vector<int> support(2 * static_cast<std::size_t>(count));
  auto solve = [&](double* work, int* iwork) {
    dsyevr_("V", "I", "U", &n, gram.data(), &n, &zero, &zero, &first, &n, &zero, &found, eigenvalues.data(),
            vectors.data(), &n, support.data(), work, &lwork, iwork, &liwork, &info);
  };
  solve(&size, &isize);
  lwork = static_cast<int>(size), liwork = isize;
  std::vector<double> work(static_cast<std::size_t>(lwork));
  std::vector<int> iwork(static_cast<std::size_t>(liwork));
  solve(work.data(), iwork.data());
  DML_CHECK(info == 0 && found == count, "dsyevr: info {}, {} of {} vectors", info, found, count);
  for (std::int64_t v = 0; v < count; ++v) {  // ascending eigenvalues
    const double* from = vectors.data() + (count - 1 - v) * n;
    double largest = 0;
    for (int i = 0; i < n; ++i)
      if (std::abs(from[i]) > std::abs(largest)) largest = from[i];
    for (int i = 0; i < n; ++i) out[v * n + i] = static_cast<float>(largest < 0 ? -from[i] : from[i]);
  }
}

}  // namespace dml::kernels
