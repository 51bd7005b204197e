// What happens to files when an allocation fails: the operators below fail from the k-th on, for every k.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace {
thread_local long allocations_left = -1;  // −1: as many as are asked for
}

void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace dml {
namespace {
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DirectoryWriter, WithoutMemoryLeavesTheOldFolderOrTheNewOneAndNothingElse) {
  for (bool replace : {false, true}) {
    int failed = 0;
    for (long k = 0;; ++k) {
      testing_tools::TemporaryFolder folder;
      const std::string target = folder / "result";
      if (replace) {
        fs::create_directory(target);
        std::ofstream(target + "/one") << "old";
      }
      bool thrown = false;
      {
        DirectoryWriter out(target, replace);
        for (const char* name : {"/inner", "/inner/deeper"}) fs::create_directory(out.path() + name);
        for (const char* name :
             {"/one", "/inner/a file with a name that no small string has room for", "/inner/deeper/two"})
          std::ofstream(out.path() + name) << "new";
        allocations_left = k;
        try {
          out.commit();
        } catch (const std::bad_alloc&) {
          thrown = true;
        }
      }
      const bool ran_out = allocations_left == 0;
      allocations_left = -1;
      failed += thrown;
      EXPECT_TRUE(ran_out || !thrown);
      const std::string one = text_of(target + "/one"), two = text_of(target + "/inner/deeper/two");
      if (thrown) EXPECT_EQ(one + two, replace ? "old" : "") << k;
      else EXPECT_EQ(one + two, "newnew") << k;
      EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), replace || !thrown ? 1 : 0) << k;
      if (!ran_out) break;
      ASSERT_LT(k, 10000);
    }
    EXPECT_GT(failed, 3);
  }
}

}  // namespace
}  // namespace dml
