// A descriptor is closed by its last owner, and all bytes are written and read.
#include "core/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "temporary_folder.h"

namespace dml {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(Descriptor, IsClosedByItsOwner) {
  int kept = -1, first = -1;
  {
    Descriptor a(open("/dev/null", O_RDONLY)), b(open("/dev/null", O_RDONLY));
    ASSERT_TRUE(a && b);
    first = a.get(), kept = b.get();
    a = std::move(b);
    EXPECT_FALSE(is_open(first));
    EXPECT_FALSE(b);
    EXPECT_EQ(a.get(), kept);
    Descriptor c(std::move(a));
    EXPECT_TRUE(is_open(kept));
    EXPECT_TRUE(c.close());
    EXPECT_FALSE(c);
    c.reset(open("/dev/null", O_RDONLY));
    kept = c.release();
  }
  EXPECT_TRUE(is_open(kept));
  ::close(kept);
  EXPECT_FALSE(Descriptor().close());
}

TEST(Descriptor, WritesAndReadsAllBytes) {
  testing_tools::TemporaryFolder folder;
  const std::string path = folder / "file";
  const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT, 0600));
  write_all(file.get(), "abcdef", 6, path);
  write_all_at(file.get(), "XY", 2, 2, path);
  std::array<char, 8> read{};
  EXPECT_EQ(read_at(file.get(), read.data(), read.size(), 1, path), 5u);
  EXPECT_EQ(std::string_view(read.data(), 5), "bXYef");
  EXPECT_EQ(read_at(file.get(), read.data(), read.size(), 6, path), 0u);
  const Descriptor full(open("/dev/full", O_WRONLY));
  if (!full) GTEST_SKIP() << "no /dev/full";
  EXPECT_THROW(write_all(full.get(), "x", 1, "/dev/full"), IoError);
  EXPECT_THROW(read_at(-1, read.data(), 1, 0, path), IoError);
}

}  // namespace
}  // namespace dml
