#include "core/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/directory.h"
#include "core/error.h"
#include "core/file_identity.h"
#include "core/memory_limits.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Files : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder / name; }
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  testing_tools::TemporaryFolder folder;
};

std::string message(ExitCode code, auto&& deed) {
  try {
    deed();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "no error";
}

// Limits the size of files to `bytes` while it exists, which looks like a full disk.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(Files, AWrittenFileAppearsOnCommit) {
  FileWriter out(at("a.txt"));
  out.write("hello ");
  out.write("world");
  out.write_at(6, "W", 1);
  EXPECT_EQ(out.position(), 11u);
  EXPECT_FALSE(fs::exists(at("a.txt")));
  out.commit();
  EXPECT_EQ(read_file(at("a.txt")), "hello World");
  EXPECT_THAT(listing(), ElementsAre("a.txt"));
}

TEST_F(Files, LargeAndSmallWritesKeepTheirOrder) {
  std::string want;
  FileWriter out(at("a"));
  // The file reaches 8 MB, where pieces become large, within the write of 3 MB.
  for (std::size_t size : {3u, 5u << 20, 1u, 1u << 20, (1u << 20) - 1, 2u, 0u, 7u, 3u << 20, 5u << 20, 11u, 2u << 20}) {
    std::string part(size, 'a');
    for (std::size_t i = 0; i < size; ++i) part[i] = static_cast<char>((want.size() + i) * 2654435761u >> 13);
    out.write(part);
    want += part;
    EXPECT_EQ(out.position(), want.size());
    if (size == 11u) {  // in the middle of a piece
      out.write_at(want.size() - 5, "12345", 5);
      want.replace(want.size() - 5, 5, "12345");
    }
  }
  out.commit();
  EXPECT_EQ(read_file(at("a")), want);
}

TEST_F(Files, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  write_file(at("a"), "old");
  {
    FileWriter out(at("a"));
    out.write(std::string(3 << 20, 'x'));
  }
  EXPECT_EQ(read_file(at("a")), "old");
  EXPECT_THAT(listing(), ElementsAre("a"));
}

TEST_F(Files, CommitReplaces) {
  write_file(at("a"), "old and longer");
  write_file(at("a"), "new");
  EXPECT_EQ(read_file(at("a")), "new");
}

TEST_F(Files, AFullDiskIsAnIoErrorAndLeavesNothing) {
  write_file(at("a"), "old");
  {
    SizeLimit limit(100000);
    auto fill = [&] {
      FileWriter out(at("a"));
      for (int i = 0; i < 300; ++i) out.write(std::string(1000, 'x'));
      out.commit();
    };
    EXPECT_THAT(message(ExitCode::io, fill), HasSubstr(at("a") + ": cannot write: "));
    auto patch = [&] {
      FileWriter out(at("b"));
      out.write(std::string(200000, 'x'));
      out.write_at(150000, "y", 1);
    };
    EXPECT_THAT(message(ExitCode::io, patch), HasSubstr("cannot write"));
  }
  EXPECT_EQ(read_file(at("a")), "old");
  EXPECT_THAT(listing(), ElementsAre("a"));
}

TEST_F(Files, AFolderThatIsNotThereIsAnIoError) {
  EXPECT_THAT(message(ExitCode::io, [&] { write_file(at("gone/a"), "x"); }),
              HasSubstr("gone/a: cannot create: No such file"));
}

TEST_F(Files, TheFoldersAboveAFileAreMadeOnRequest) {
  make_parent_directories(at("some/new/a"));
  write_file(at("some/new/a"), "x");
  EXPECT_EQ(read_file(at("some/new/a")), "x");
  make_parent_directories("a");
}

TEST_F(Files, AFileCannotReplaceAFolder) {
  fs::create_directories(at("d/inner"));
  EXPECT_THAT(message(ExitCode::io, [&] { write_file(at("d"), "x"); }), HasSubstr("cannot finish writing"));
  EXPECT_THAT(listing(), ElementsAre("d"));
}

TEST_F(Files, WritingPastTheEndIsAnInternalError) {
  FileWriter out(at("a"));
  out.write("abc");
  EXPECT_THAT(message(ExitCode::internal, [&] { out.write_at(2, "xy", 2); }), HasSubstr("internal error"));
}

TEST_F(Files, ALinkKeepsItsPlaceAndTheFileThatItNamesIsReplaced) {
  write_file(at("file"), "old");
  fs::create_symlink("file", at("link"));
  fs::create_symlink(at("new"), at("dangling"));
  write_file(at("link"), "text");
  write_file(at("dangling"), "more");
  EXPECT_EQ(read_file(at("file")), "text");
  EXPECT_EQ(read_file(at("new")), "more");
  EXPECT_EQ(fs::read_symlink(at("link")), "file");
  EXPECT_THAT(listing(), ElementsAre("dangling", "file", "link", "new"));
}

TEST_F(Files, APipeAndAnOpenFileAreWrittenDirectly) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const int reader = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  write_file(at("pipe"), "text");
  char read_back[8] = {};
  EXPECT_EQ(read(reader, read_back, sizeof read_back), 4);
  EXPECT_STREQ(read_back, "text");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
  const int file = open(at("file").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(file, "before ", 7), 7);
  write_file(fmt::format("/proc/self/fd/{}", file), "text");  // as /dev/stdout
  close(file);
  EXPECT_EQ(read_file(at("file")), "before text");
  EXPECT_THAT(message(ExitCode::io, [&] { write_file("/dev/full", "text"); }), HasSubstr("No space left"));
  EXPECT_THAT(listing(), ElementsAre("file", "pipe"));
}

TEST_F(Files, AnInterruptedWriterLeavesNothing) {
  enum class Then { writes_on, computes, nothing };
  const auto interrupted = [&](int signals, Then then) {
    try {
      FileWriter out(at("file"));
      DirectoryWriter folder_beside(at("folder"));
      out.write("begun");
      for (int i = 0; i < signals; ++i) raise(SIGINT);
      if (then == Then::writes_on) out.write("more");
      if (then == Then::computes) check_interruption();
    } catch (const Error& e) {
      std::exit(static_cast<int>(e.code()));
    }
    std::exit(0);
  };
  EXPECT_EXIT(interrupted(1, Then::writes_on), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(interrupted(1, Then::computes), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(interrupted(1, Then::nothing), testing::KilledBySignal(SIGINT), "");
  EXPECT_THAT(listing(), IsEmpty());
  EXPECT_EXIT(interrupted(2, Then::nothing), testing::KilledBySignal(SIGINT), "");  // at once
  EXPECT_EQ(listing().size(), 2u);
}

TEST_F(Files, ReadingHasALimit) {
  write_file(at("a"), "12345");
  EXPECT_EQ(read_file(at("a"), 5), "12345");
  EXPECT_EQ(message(ExitCode::user, [&] { read_file(at("a"), 4); }), at("a") + ": 5 bytes, the limit is 4");
}

TEST_F(Files, APointerOfGitLfsIsNamed) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 1234\n";
  write_file(at("a"), pointer);
  const std::string said = at("a") + ": this is a Git LFS pointer, not the file; run `git lfs pull` in the folder";
  for (auto open : {+[](const std::string& p) { read_file(p); }, +[](const std::string& p) { MappedFile file(p); }})
    EXPECT_EQ(message(ExitCode::user, [&] { open(at("a")); }), said);
  write_file(at("a"), pointer + std::string(2000, ' '));  // a text that begins like one
  EXPECT_EQ(read_file(at("a")).size(), pointer.size() + 2000);
}

TEST_F(Files, OnlyRegularFilesAreReadOrMapped) {
  fs::create_directory(at("d"));
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  for (auto open : {+[](const std::string& p) { read_file(p); }, +[](const std::string& p) { MappedFile file(p); }}) {
    EXPECT_EQ(message(ExitCode::user, [&] { open(at("d")); }), at("d") + ": is a folder, not a file");
    EXPECT_EQ(message(ExitCode::user, [&] { open(at("pipe")); }), at("pipe") + ": is a pipe or device, not a file");
    EXPECT_EQ(message(ExitCode::user, [&] { open("/dev/zero"); }), "/dev/zero: is a pipe or device, not a file");
    EXPECT_EQ(message(ExitCode::user, [&] { open(at("gone")); }), at("gone") + ": no such file");
    EXPECT_THAT(message(ExitCode::user, [&] { open(at(std::string(300, 'n'))); }), HasSubstr("cannot be opened"));
  }
}

TEST_F(Files, AMappingShowsTheBytesAndMoves) {
  write_file(at("a"), "mapped");
  MappedFile a(at("a"));
  EXPECT_EQ(a.text(), "mapped");
  EXPECT_EQ(a.path(), at("a"));
  MappedFile b(std::move(a));
  EXPECT_EQ(b.text(), "mapped");
  write_file(at("b"), "other");
  b = MappedFile(at("b"));
  EXPECT_EQ(b.text(), "other");
}

TEST_F(Files, AMappingOutlivesItsName) {
  write_file(at("a"), "mapped");
  MappedFile a(at("a"));
  write_file(at("a"), "new");
  EXPECT_EQ(a.text(), "mapped");
}

TEST_F(Files, AnEmptyFileIsAnEmptyMapping) {
  write_file(at("a"), "");
  EXPECT_TRUE(MappedFile(at("a")).bytes().empty());
  EXPECT_EQ(read_file(at("a")), "");
}

TEST_F(Files, AFileCutShortWhileMappedEndsTheProcessWithItsName) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::string path = at("cut_short");
  auto cut = [&] {
    write_file(path, std::string(1 << 20, 'x'));
    MappedFile file(path);
    fs::resize_file(path, 1);
    volatile char c = file.text()[500000];
    (void)c;
  };
  EXPECT_EXIT(cut(), testing::ExitedWithCode(static_cast<int>(ExitCode::io)), "cut_short: was cut short");
}

TEST_F(Files, AnUnrelatedBusErrorIsPassedOn) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  auto raise_it = [&] {
    std::signal(SIGBUS, [](int) { _exit(99); });
    write_file(at("a"), "x");
    MappedFile file(at("a"));
    raise(SIGBUS);
    raise(SIGBUS);
  };
  EXPECT_EXIT(raise_it(), testing::ExitedWithCode(99), "");
}

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST_F(Files, AFolderAppearsWholeOnCommit) {
  DirectoryWriter out(at("run/checkpoint-1/"));
  put(out.path() + "/a.txt", "a");
  put(out.path() + "/deep/b.txt", "b");
  EXPECT_FALSE(fs::exists(at("run/checkpoint-1")));
  EXPECT_TRUE(out.commit());
  EXPECT_EQ(read_file(at("run/checkpoint-1/deep/b.txt")), "b");
  EXPECT_EQ(std::distance(fs::directory_iterator(at("run")), fs::directory_iterator()), 1);
}

TEST_F(Files, AFolderWithoutCommitLeavesNothing) {
  {
    DirectoryWriter out(at("d"));
    put(out.path() + "/a", "a");
  }
  EXPECT_THAT(listing(), IsEmpty());
}

TEST_F(Files, TheFirstWriterOfAFolderWins) {
  DirectoryWriter first(at("d")), second(at("d"));
  put(first.path() + "/a", "first");
  put(second.path() + "/a", "second");
  EXPECT_TRUE(first.commit());
  {
    DirectoryWriter third(at("d"));
    EXPECT_FALSE(third.commit());
  }
  EXPECT_FALSE(second.commit());
  EXPECT_EQ(read_file(at("d/a")), "first");
}

TEST_F(Files, ReplacingAFolderLeavesOnlyTheNewOne) {
  put(at("d/old"), "old");
  DirectoryWriter out(at("d"), true);
  put(out.path() + "/new", "new");
  EXPECT_TRUE(out.commit());
  EXPECT_TRUE(fs::exists(at("d/new")));
  EXPECT_FALSE(fs::exists(at("d/old")));
  EXPECT_THAT(listing(), ElementsAre("d"));
}

TEST_F(Files, AFolderCannotTakeThePlaceOfAFile) {
  write_file(at("d"), "a file");
  {
    DirectoryWriter out(at("d"));
    EXPECT_THAT(message(ExitCode::io, [&] { out.commit(); }), HasSubstr("cannot rename into place"));
  }
  EXPECT_EQ(read_file(at("d")), "a file");
  EXPECT_THAT(listing(), ElementsAre("d"));
}

// A reader that polls while a folder is replaced repeatedly never finds it missing.
TEST_F(Files, WhileAFolderIsReplacedItIsNeverMissing) {
  put(at("d/v"), "0");
  pid_t reader = fork();
  if (reader == 0) {
    struct stat info;
    while (access(at("stop").c_str(), F_OK) != 0)
      if (stat(at("d").c_str(), &info) != 0) _exit(1);
    _exit(0);
  }
  for (int i = 0; i < 50; ++i) {
    DirectoryWriter out(at("d"), true);
    put(out.path() + "/v", "1");
    ASSERT_TRUE(out.commit());
  }
  write_file(at("stop"), "");
  int status = 0;
  waitpid(reader, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Files, PathsAreMadeReal) {
  fs::create_directory(at("d"));
  fs::create_directory_symlink(at("d"), at("link"));
  EXPECT_EQ(real_path(at("link/../link/new.txt")), real_path(at("d")) + "/new.txt");
}

TEST_F(Files, AFolderHasItsNameWithAndWithoutASlash) {
  for (const char* path : {"/runs/first", "/runs/first/", "runs/second/../first/."})
    EXPECT_EQ(folder_name(path), "first") << path;
}

TEST_F(Files, AnInvalidDirectoryIsReportedWithItsReason) {
  fs::create_directory(at("d"));
  fs::create_symlink(at("b"), at("a"));
  fs::create_symlink(at("a"), at("b"));
  EXPECT_NO_THROW(require_directory(at("d")));
  auto refusal = [&](const char* name) { return message(ExitCode::user, [&] { require_directory(at(name)); }); };
  EXPECT_EQ(refusal("none"), at("none") + ": no such directory");
  EXPECT_EQ(refusal("a"), at("a") + ": Too many levels of symbolic links");
}

TEST_F(Files, ADirectoryThatMayNotBeEnteredIsNotTakenForAnEmptyOne) {
  constexpr uid_t kNobody = 65534;
  fs::create_directory(at("d"));
  put(at("d/f"), "");
  EXPECT_TRUE(directory_has(at("d"), "f"));
  EXPECT_FALSE(directory_has(at("d"), "g"));
  EXPECT_FALSE(directory_has(at("none"), "f"));
  fs::permissions(at("d"), fs::perms::none);
  fs::permissions(at("."), fs::perms::all);
  const bool root = geteuid() == 0;  // may enter it
  ASSERT_EQ(root ? seteuid(kNobody) : 0, 0);
  const std::string refusal = message(ExitCode::user, [&] { require_directory(at("d")); });
  const std::string unknown = message(ExitCode::user, [&] { directory_has(at("d"), "f"); });
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  fs::permissions(at("d"), fs::perms::owner_all);
  EXPECT_EQ(refusal, at("d") + ": Permission denied");
  EXPECT_EQ(unknown, refusal);
}

TEST_F(Files, TheNearestParentThatExistsTellsWhereAPathWouldBeCreated) {
  put(at("f"), "");
  EXPECT_EQ(nearest_existing(at("f")), at("f"));
  EXPECT_EQ(nearest_existing(at("f/g/h")), at("f"));
  EXPECT_EQ(nearest_existing(at("a/b/c")), fs::path(at("a")).parent_path().string());
  EXPECT_EQ(nearest_existing("/no such folder/a"), "/");
  EXPECT_EQ(nearest_existing("no such folder/a"), fs::current_path().string());
}

TEST_F(Files, AProgramIsFoundByItsPathOrInPath) {
  put(at("tool"), "");
  EXPECT_FALSE(can_run(at("tool")));
  fs::permissions(at("tool"), fs::perms::owner_all);
  EXPECT_TRUE(can_run(at("tool")));
  EXPECT_FALSE(can_run("tool"));
  const char* path = std::getenv("PATH");
  const std::string before = path ? path : "";
  setenv("PATH", ("/no such folder:" + fs::path(at("tool")).parent_path().string()).c_str(), 1);
  EXPECT_TRUE(can_run("tool"));
  EXPECT_FALSE(can_run("tool2"));
  if (path) setenv("PATH", before.c_str(), 1);
  else unsetenv("PATH");
}

TEST_F(Files, OnlyACloseNameIsSuggestedForAMissingPath) {
  for (const char* name : {"e", "o", "train.jsonl"}) put(at(name), "");
  EXPECT_EQ(near_missing(at("trian.jsonl")), "; did you mean 'train.jsonl'?");
  EXPECT_EQ(near_missing(at("st.json")), "");
  EXPECT_EQ(near_missing(at("d/x")), "; there is no directory " + at("d"));
}

TEST(MemoryUse, IsThere) {
  MemoryUse use = memory_use();
  EXPECT_GT(use.now, 1u << 20);
  EXPECT_GE(use.peak, use.now);
}

TEST(MemoryUse, ForgetsAPeak) {
  constexpr std::size_t kSize = std::size_t{128} << 20;
  std::vector<char>(kSize, 'x').clear();
  const std::size_t high = memory_use().peak;
  forget_peak_memory();
  EXPECT_LT(memory_use().peak, high - kSize / 2);
}

TEST_F(Files, PagesOfOtherMemoryAreNotReleased) {
  std::vector<std::byte> own(std::size_t{1} << 20, std::byte{7});
  release_pages(own);
  EXPECT_EQ(std::ranges::count(own, std::byte{7}), std::ssize(own));
  std::ofstream(at("large")) << std::string(std::size_t{1} << 20, 'x');
  const MappedFile file(at("large"));
  EXPECT_EQ(std::ranges::count(file.text(), 'x'), std::ssize(file.text()));
  release_pages(file.bytes());
  EXPECT_EQ(std::ranges::count(file.text(), 'x'), std::ssize(file.text()));
}

TEST_F(Files, AnOutputIsNoInputByWhateverName) {
  write_file(at("rows"), "a");
  write_file(at("other"), "a");
  fs::create_symlink(at("rows"), at("symbolic"));
  fs::create_hard_link(at("rows"), at("hard"));
  for (const char* same : {"rows", "symbolic", "hard", "./rows"})
    EXPECT_THAT(message(ExitCode::user,
                        [&] {
                          require_not_an_input("--output", at(same), {at("none"), at("rows")});
                        }),
                HasSubstr("--output: "));
  for (const char* free : {"other", "new"})
    EXPECT_NO_THROW(require_not_an_input("--output", at(free), {at("rows"), at("new"), ""}));
  EXPECT_NO_THROW(require_not_an_input("--output", "/dev/null", {"/dev/null"}));
}

// As `rsync --inplace --times` writes: the same inode, size and time of modification.
TEST_F(Files, AnIdentityChangesWithTheContentsWhateverTheirTime) {
  EXPECT_EQ(file_identity(at("none")), "");
  std::ofstream(at("a")) << "old";
  const std::string before = file_identity(at("a"));
  const fs::file_time_type time = fs::last_write_time(at("a"));
  EXPECT_EQ(file_identity(at("a")), before);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the system's clock of files ticks less often
  std::ofstream(at("a")) << "new";
  fs::last_write_time(at("a"), time);
  EXPECT_NE(file_identity(at("a")), before);
}

}  // namespace
}  // namespace dml
