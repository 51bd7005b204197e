// The cache of huggingface_hub, laid out by hand: names, revisions, folders that are missing, and what is said then.
#include "hub/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/directory.h"
#include "core/files.h"
#include "hub/client.h"
#include "temporary_folder.h"

namespace dml {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class HubCache : public testing::Test {
 protected:
  HubCache() {
    setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
    for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) unsetenv(name);
    add("models--org--small", "main", kOne);
    add("models--org--small", "refs/pr/1", kTwo);
    add("models--gpt2", "main", kOne);
    add("datasets--org--rows", "main", kTwo);
    write("models--org--broken/refs/main", kOne);  // interrupted: there is no snapshot
  }
  ~HubCache() override { unsetenv("HF_HUB_CACHE"); }
  void write(const std::string& name, const std::string& text) const {
    make_directories(fs::path(folder_ / name).parent_path());
    write_file(folder_ / name, text);
  }
  void add(const std::string& repository, const std::string& reference, const std::string& commit) const {
    write(repository + "/refs/" + reference, commit);
    write(repository + "/blobs/abc", "{}");
    make_directories(folder_ / (repository + "/snapshots/" + commit));
    fs::create_symlink("../../blobs/abc", folder_ / (repository + "/snapshots/" + commit + "/config.json"));
  }
  std::string place(const std::string& rest) const { return folder_ / rest; }

  static constexpr const char* kOne = "0123456789abcdef0123456789abcdef01234567";
  static constexpr const char* kTwo = "89abcdef0123456789abcdef0123456789abcdef";
  const testing_tools::TemporaryFolder folder_;
};

TEST_F(HubCache, FindsSnapshotsByNameAndRevision) {
  const std::string one = place(std::string("models--org--small/snapshots/") + kOne);
  EXPECT_EQ(find_in_hub_cache(HubKind::model, "org/small"), one);
  EXPECT_EQ(find_in_hub_cache(HubKind::model, "org/small@main"), one);
  EXPECT_EQ(find_in_hub_cache(HubKind::model, std::string("org/small@") + kOne), one);
  EXPECT_EQ(find_in_hub_cache(HubKind::model, "org/small@refs/pr/1"),
            place(std::string("models--org--small/snapshots/") + kTwo));
  EXPECT_EQ(find_in_hub_cache(HubKind::model, "gpt2"), place(std::string("models--gpt2/snapshots/") + kOne));
  EXPECT_EQ(find_in_hub_cache(HubKind::dataset, "org/rows"),
            place(std::string("datasets--org--rows/snapshots/") + kTwo));
  EXPECT_EQ(read_file(*find_in_hub_cache(HubKind::model, "org/small") + "/config.json"), "{}");
}

TEST_F(HubCache, MissingNamesAreNotFound) {
  for (const char* name :
       {"org/rows", "org/broken", "org/small@v1", "org/none", "small", "models/llama/config.json", "../org/small",
        "org/../small", "/org/small", "org/small@../main", "org/sm all", "-a/b", "a./b", "a--b/c", ""})
    EXPECT_EQ(find_in_hub_cache(HubKind::model, name), std::nullopt) << name;
  EXPECT_EQ(find_in_hub_cache(HubKind::model, "org/small@ffffffffffffffffffffffffffffffffffffffff"), std::nullopt);
}

TEST_F(HubCache, NamesTheCacheAndSimilarNames) {
  EXPECT_THAT(missing_advice(HubKind::model, "org/smal"), HasSubstr("did you mean 'org/small'?"));
  EXPECT_THAT(missing_advice(HubKind::model, "other/thing"), HasSubstr("not in the cache " + folder_.path()));
  EXPECT_THAT(missing_advice(HubKind::dataset, "other/thing"),
              HasSubstr("To download it: dml fetch --dataset other/thing"));
  setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_THAT(missing_advice(HubKind::model, "other/thing"),
              HasSubstr("To download it, unset HF_HUB_OFFLINE and run: dml fetch other/thing"));
  unsetenv("HF_HUB_OFFLINE");
  EXPECT_THAT(missing_advice(HubKind::model, "org/small@v2"), HasSubstr("but not its revision 'v2'"));
  EXPECT_EQ(missing_advice(HubKind::model, "models/llama/"), "; there is no directory models/llama");
  EXPECT_THAT(missing_advice(HubKind::dataset, "rows.jsonl"), Not(HasSubstr("dml fetch")));
}

TEST_F(HubCache, ANameInAFolderIsAPathFirst) {
  write_file(folder_ / "faq.csv", "a\n");
  EXPECT_EQ(missing_advice(HubKind::dataset, folder_ / "fag.csv"), "; did you mean 'faq.csv'?");
  const std::string before = fs::current_path();
  fs::current_path(folder_.path());
  make_directories("models/base");
  EXPECT_EQ(missing_advice(HubKind::model, "models/bse"), "; did you mean 'base'?");
  EXPECT_THAT(missing_advice(HubKind::model, "models/Qwen3-0.6B"), HasSubstr("dml fetch models/Qwen3-0.6B"));
  fs::current_path(before);
}

TEST_F(HubCache, FollowsTheEnvironment) {
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "/home-of-hub", 1);
  EXPECT_EQ(hub_cache_directory(), "/home-of-hub/hub");
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"}) unsetenv(name);
  // The token lies in the same folder as the cache.
  setenv("HF_HOME", folder_.path().c_str(), 1);
  write_file(folder_ / "token", "hf_secret\n");
  EXPECT_EQ(HubOptions::from_environment().token, "hf_secret");
  unsetenv("HF_HOME");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(hub_home(), "/cache/huggingface");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace dml
