// Products whose operands all threads pack together have the bits of those whose tasks pack their own: for every
// instruction set and precision, whatever the sizes of tiles and groups of steps.
#include "kernels/packed_together.h"
#include "core/affinity.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/processor.h"
#include "kernels/simd/product_loops.h"
#include "values.h"

namespace dml::kernels {
namespace {

struct Shape {
  std::int64_t rows, cols, depth, tail;
  bool transposed, bf16_weight;
};

class PackedTogether : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!use_isa(GetParam())) GTEST_SKIP() << "not on this machine";
  }
  void TearDown() override {
    use_precision(DType::f32);
    use_isa(best_isa());
    set_threads(available_cores());
  }

  static std::vector<float> some(std::int64_t size, int seed) { return values(static_cast<std::size_t>(size), seed); }

  // The product by tasks of their own on one thread, and together on several.
  static void compare(const Shape& s, Write mode) {
    const auto a = some(s.rows * s.depth, 1), b = some(s.cols * s.depth, 2), ta = some(s.rows * s.tail, 3),
               tb = some(s.cols * s.tail, 4);
    std::vector<bf16> narrow;
    for (const float x : b) narrow.push_back(to_bf16(x));
    auto factor = [&](const float* x, std::int64_t count, std::int64_t depth) {
      const std::int64_t rows = s.transposed ? depth : count, cols = s.transposed ? count : depth;
      return Factor{{DType::f32, rows, cols, x}, s.transposed};
    };
    Product p{factor(a.data(), s.rows, s.depth), factor(b.data(), s.cols, s.depth), {}, mode};
    if (s.bf16_weight) p.b.values.dtype = DType::bf16, p.b.values.data = narrow.data();
    if (s.tail > 0) p.tail = Tail{factor(ta.data(), s.rows, s.tail), factor(tb.data(), s.cols, s.tail)};
    std::vector<float> alone = some(s.rows * s.cols, 5), joint = alone;
    p.c = mat(alone, s.rows, s.cols);
    set_threads(1);
    packed_products(p);
    const std::int64_t mr = product_loops().mr, nr = product_loops().nr;
    for (const Together how : {Together{mr, nr, 1}, Together{3 * mr, 10 * nr, 2}, Together{7 * mr, 2 * nr, 5}})
      for (const int threads : {1, 2}) {
        set_threads(threads);
        std::vector<float> got = joint;
        p.c = mat(got, s.rows, s.cols);
        multiply_together(p, how);
        EXPECT_EQ(got, alone) << s.rows << " × " << s.cols << " × " << s.depth << ", tiles " << how.rows << " × "
                              << how.cols << ", steps " << how.steps << ", threads " << threads;
      }
  }
};

TEST_P(PackedTogether, GivesTheBitsOfTasksThatPackTheirOwn) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    use_precision(precision);
    compare({70, 97, 1300, 0, false, false}, Write::set);
    compare({61, 352, 515, 16, false, true}, Write::add);
    compare({45, 70, 2100, 5, true, true}, Write::set);
    compare({130, 33, 700, 0, true, false}, Write::add);
  }
}

TEST_P(PackedTogether, IsChosenWhereThreadsAreMoreThanPackingForEachOfThemFeeds) {
  std::vector<float> a(532 * 4000, 0.5f), b(768 * 4000, 0.25f), c(532 * 768);
  const Product p{{weight_of(mat(a, 532, 4000))}, {weight_of(mat(b, 768, 4000))}, mat(c, 532, 768)};
  EXPECT_EQ(together(p, 1).steps, 0) << "the operands of a step do not fit the room of a thread";
  const Together many = together(p, 64);
  EXPECT_GT(many.steps, 0);
  const std::int64_t tasks = (532 + many.rows - 1) / many.rows * ((768 + many.cols - 1) / many.cols);
  EXPECT_GE(tasks, 48);
}

INSTANTIATE_TEST_SUITE_P(Isas, PackedTogether,
                         testing::Values(Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx));

}  // namespace
}  // namespace dml::kernels
