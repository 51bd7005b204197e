// The examples of FIPS 180-4, and pieces of every length.
#include "core/sha.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Sha, GivesThePublishedDigests) {
  EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256().update("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().update("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha1().update("abc").hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(Sha1().update(std::string_view("blob 0\0", 7)).hex(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(Sha, PiecesMakeNoDifference) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const std::string whole = Sha256().update(text).hex();
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(Sha256().update(text.substr(0, cut)).update(text.substr(cut)).hex(), whole) << cut;
  std::string million(1'000'000, 'a');
  EXPECT_EQ(Sha256().update(million).hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace dml
