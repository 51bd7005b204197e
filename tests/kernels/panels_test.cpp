// A first factor in panels is cut into other steps of the depth than the second factor would be by itself; the panels
// of the second one are packed in the first one's steps. Vocabularies somewhat larger than a panel make the difference.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/gemm.h"
#include "values.h"

namespace dml::kernels {
namespace {

TEST(Panels, OfTheFirstFactorDecideTheStepsOfBoth) {
  const std::int64_t rows = 70, hidden = 96;
  for (const std::int64_t width : {384, 512, 768})
    for (const std::int64_t vocabulary : {513, 700, 1100, 1300}) {
      const auto dy = values(static_cast<std::size_t>(rows * vocabulary), 1);
      const auto w = values(static_cast<std::size_t>(vocabulary * hidden), 2);
      std::vector<float> panels, dx(static_cast<std::size_t>(rows * hidden));
      for (std::int64_t first = 0; first < vocabulary; first += width)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = first; c < std::min(first + width, vocabulary); ++c)
            panels.push_back(dy[static_cast<std::size_t>(r * vocabulary + c)]);
      gemm_nn_panels(panels.data(), rows, width, {DType::f32, vocabulary, hidden, w.data()}, mat(dx, rows, hidden),
                     Write::set);
      for (std::int64_t r = 0; r < rows; r += 23)
        for (std::int64_t c = 0; c < hidden; c += 7) {
          double sum = 0;
          for (std::int64_t k = 0; k < vocabulary; ++k)
            sum += static_cast<double>(dy[static_cast<std::size_t>(r * vocabulary + k)]) *
                   static_cast<double>(w[static_cast<std::size_t>(k * hidden + c)]);
          ASSERT_NEAR(dx[static_cast<std::size_t>(r * hidden + c)], sum, 1e-3) << vocabulary << " by " << width;
        }
    }
}

}  // namespace
}  // namespace dml::kernels
