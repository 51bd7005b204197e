#include "nn/parameter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace dml {
namespace {

TEST(ParameterStore, LaysParametersOutAtBlocksOf256InOneBlockAUnit) {
  ParameterStore store;
  store.create_units({"embed", "layers.0"});
  ParameterRef a = store.add(0, "a", {3, 5}, true), b = store.add(0, "b", {17}, false),
               c = store.add(1, "c", {2, 2}, true);
  store.allocate();
  EXPECT_EQ(store.units()[0].size, 256 + 256);
  EXPECT_EQ(store.units()[1].size, 256);
  EXPECT_EQ(store.trainable(), 15 + 17 + 4);
  EXPECT_EQ(store.floats(), 768);
  EXPECT_EQ(a.value().rows, 3);
  EXPECT_EQ(b.value().cols, 17);
  EXPECT_EQ(b.value().data, store.units()[0].value.floats() + 256);
  EXPECT_EQ(c.value().data, store.units()[1].value.floats());
  for (float x : b.value().flat()) EXPECT_EQ(x, 0);
}

TEST(ParameterStore, RefsFollowARebinding) {
  ParameterStore store;
  store.create_units({"unit"});
  ParameterRef p = store.add(0, "p", {2, 2}, true);
  store.allocate();
  EXPECT_TRUE(p.grad().empty());
  std::vector<float> elsewhere(16, 3.f), gradient(16);
  store.release();
  store.units()[0].value = elsewhere.data();
  store.units()[0].grad = gradient.data();
  EXPECT_EQ(p.value().data[3], 3);
  EXPECT_EQ(p.grad().data, gradient.data());
}

// What an earlier gradient left is set by a product of the whole, zeroed for one of a part, and zeroed in the end.
TEST(ParameterStore, StartsEveryGradientFromZero) {
  ParameterStore store;
  store.create_units({"unit"});
  ParameterRef product = store.add(0, "a", {2, 2}, true), fused = store.add(0, "b", {4, 1}, true);
  store.add(0, "c", {3}, true);
  store.allocate();
  ParameterRef part = fused;
  part.rows = 2;
  std::vector<float> gradient(3 * 256, 7.f);
  store.units()[0].grad = gradient.data();
  EXPECT_EQ(product.whole_grad().mode, Write::add);
  EXPECT_EQ(gradient[0], 7);
  store.begin_gradient();
  EXPECT_EQ(product.whole_grad().mode, Write::set);
  EXPECT_EQ(gradient[0], 7);
  EXPECT_EQ(product.whole_grad().mode, Write::add);
  EXPECT_EQ(part.whole_grad().mode, Write::add);
  EXPECT_EQ(std::vector(gradient.begin() + 256, gradient.begin() + 260), std::vector(4, 0.f));
  gradient[256] = 1;
  EXPECT_EQ(part.grad().data[0], 1);
  EXPECT_EQ(gradient[512], 7);
  store.end_gradient(0);
  EXPECT_EQ(std::vector(gradient.begin() + 512, gradient.begin() + 515), std::vector(3, 0.f));
  EXPECT_EQ(gradient[256], 1);
  EXPECT_EQ(std::vector(gradient.begin() + 260, gradient.begin() + 512), std::vector(252, 0.f));
}

TEST(ParameterStore, LargeParametersHavePartsOfTheirOwnBehindWhatIsSmall) {
  ParameterStore store;
  store.create_units({"unit"});
  ParameterRef norm = store.add(0, "norm", {300}, false);
  ParameterRef up = store.add(0, "up", {50, 30}, true, {}, 50), table = store.add(0, "table", {40, 64}, true, {}, 16);
  EXPECT_THROW(store.add(0, "late", {3}, false), Error);
  Unit& unit = store.units()[0];
  ASSERT_EQ(unit.parts.size(), 5u);
  for (std::size_t p = 0; p < unit.parts.size(); ++p) {
    EXPECT_EQ(unit.parts[p].first % 1024, 0);
    EXPECT_EQ(unit.parts[p].first, p == 0 ? 0 : unit.parts[p - 1].last);
  }
  EXPECT_EQ(unit.parts.back().last, unit.size);
  EXPECT_EQ(norm.part, 0u);
  EXPECT_EQ(up.part_count(), 1u);
  ASSERT_EQ(table.part_count(), 3u);
  EXPECT_EQ(table.in_part(2).rows, 8);
  EXPECT_EQ(table.in_part(1).offset, table.offset + 16 * 64);

  std::vector<float> some(2048, 7);
  EXPECT_EQ(table.in_part(1).value().data, nullptr);
  unit.parts[3].value = unit.parts[3].grad = some.data();
  EXPECT_EQ(table.in_part(1).value().data, some.data());
  EXPECT_TRUE(table.in_part(0).grad().empty());
  store.allocate();
  EXPECT_EQ(table.in_part(1).value().data, unit.value.floats() + table.offset + 16 * 64);

  // Rows 20 to 39 of the table are trained: four of part 3 are not.
  unit.parameters.back().trained_first = 20 * 64;
  mask_gradient(unit, 3);
  EXPECT_EQ(std::count(some.begin(), some.begin() + 1024, 0.f), 4 * 64);
}

TEST(ParameterStore, NothingIsAddedOnceAddressesAreFixed) {
  ParameterStore store;
  store.create_units({"unit"});
  store.add(0, "p", {2}, true);
  store.allocate();
  EXPECT_THROW(store.add(0, "q", {2}, true), Error);
}

}  // namespace
}  // namespace dml
