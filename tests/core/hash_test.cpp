#include "core/hash.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

// XXH3-128 with seed 0 of "", "a" and "abc", as xxhsum -H2 prints them.
TEST(Digest, IsXxh3With128Bits) {
  EXPECT_EQ(digest_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of("a"), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(digest_of("abc"), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, DoesNotDependOnHowTheBytesArrive) {
  std::string bytes(3000, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
  Hasher pieces;
  for (std::size_t i = 0; i < bytes.size(); i += 7)
    pieces.bytes(bytes.data() + i, std::min<std::size_t>(7, bytes.size() - i));
  EXPECT_EQ(pieces.digest(), digest_of(bytes));
  EXPECT_EQ(pieces.digest(), pieces.digest());
}

TEST(Digest, TextsAreKeptApart) {
  EXPECT_NE(Hasher().text("ab").text("c").digest(), Hasher().text("a").text("bc").digest());
  EXPECT_NE(Hasher().text("").digest(), Hasher().digest());
  EXPECT_NE(Hasher().number(1).number(2).digest(), Hasher().number(2).number(1).digest());
}

TEST(Digest, NumbersAreLittleEndianBytes) {
  EXPECT_EQ(Hasher().number(0x0102030405060708).digest(), digest_of("\x08\x07\x06\x05\x04\x03\x02\x01"));
}

TEST(Digest, OfAFileIsThatOfItsBytes) {
  testing_tools::TemporaryFolder folder;
  std::string path = folder / "file";
  write_file(path, "abc");
  EXPECT_EQ(digest_of_file(path), digest_of("abc"));
  write_file(path, "");
  EXPECT_EQ(digest_of_file(path), digest_of(""));
  std::filesystem::remove(path);
  EXPECT_THROW(digest_of_file(path), UserError);
}

}  // namespace
}  // namespace dml
