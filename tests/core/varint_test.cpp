#include "core/varint.h"

#include <gtest/gtest.h>

#include <string>

#include "core/protobuf.h"

namespace dml {
namespace {

TEST(Varint, ReadsWhatProtobufWrites) {
  for (std::uint64_t x : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128}, UINT64_MAX}) {
    std::string bytes;
    protobuf::add_varint(bytes, x);
    std::size_t at = 0;
    EXPECT_EQ(read_varint([&] { return bytes.at(at++); }), x);
    EXPECT_EQ(at, bytes.size());
  }
  EXPECT_EQ(read_varint([] { return '\x80'; }), std::nullopt);
}

TEST(Varint, ZigzagPutsTheSignIntoTheLowestBit) {
  const std::int64_t signs[] = {0, -1, 1, -2, 2};
  for (std::uint64_t code = 0; code < 5; ++code) EXPECT_EQ(static_cast<std::int64_t>(unzigzag(code)), signs[code]);
  EXPECT_EQ(static_cast<std::int64_t>(unzigzag(UINT64_MAX)), INT64_MIN);
}

}  // namespace
}  // namespace dml
