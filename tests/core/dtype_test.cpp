#include "core/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace dml {
namespace {

TEST(DType, BytesAreThoseOfWholeBlocks) {
  EXPECT_EQ(dtype_bytes(DType::f64, 3), 24);
  EXPECT_EQ(dtype_bytes(DType::f6_e2m3, 8), 6);
  EXPECT_EQ(dtype_bytes(DType::nf4, 5), 3);  // the last byte holds one code
  EXPECT_EQ(dtype_bytes(DType::q4_k, 512), 288);
  EXPECT_EQ(dtype_bytes(DType::q6_k, 0), 0);
  EXPECT_EQ(dtype_bits(DType::f6_e3m2), 6);
  EXPECT_EQ(dtype_bits(DType::boolean), 8);
}

TEST(DType, NamesDiffer) {
  std::set<std::string_view> names;
  for (const DTypeRow& row : kDTypes) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

}  // namespace
}  // namespace dml
