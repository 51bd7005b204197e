#include "checkpoint/model_files.h"

#include "bad_cases.h"
#include "core/json.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<TensorInfo> three() {
  return {{"b", DType::f32, {2, 3}}, {"c", DType::bf16, {4}}, {bad::kIndexed, DType::f32, {5}}};
}

void write(const std::string& directory, std::size_t shard) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  ModelWriter out(directory, three(), shard);
  for (auto& t : out.tensors()) out.append_floats(std::span(values).first(static_cast<std::size_t>(t.size())));
  out.commit();
}

/// A sharded model whose index has been changed.
class BadIndex : public testing::Test {
 protected:
  BadIndex() { write(dir_.path(), 28); }
  template <class F>
  std::string with(F change) {
    Json j = read_json(path());
    change(j);
    put(path(), j.dump());
    return refusal([&] { ModelFiles files(dir_.path()); });
  }
  std::string path() { return dir_ / "model.safetensors.index.json"; }
  TempDir dir_;
};
class BadIndexCase : public BadIndex, public testing::WithParamInterface<bad::Case> {};

TEST(ModelFiles, OneFileHasNoIndex) {
  TempDir dir;
  write(dir.path(), ModelWriter::kDefaultShard);
  EXPECT_FALSE(fs::exists(dir / "model.safetensors.index.json"));
  ModelFiles files(dir.path());
  EXPECT_EQ(files.tensors().size(), 3u);
  EXPECT_EQ(files.bytes(), 24u + 8 + 20);
  EXPECT_FALSE(files.find("d"));
}

TEST(ModelFiles, ShardsAreWrittenWithTheirIndexAndReadAsOne) {
  TempDir dir;
  write(dir.path(), 28);
  EXPECT_EQ(get(dir / "model.safetensors.index.json"),
            "{\n  \"metadata\": {\n    \"total_size\": 52\n  },\n  \"weight_map\": {\n"
            "    \"b\": \"model-00001-of-00002.safetensors\",\n    \"c\": \"model-00002-of-00002.safetensors\",\n"
            "    \"model.norm.weight\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
  ModelFiles files(dir.path());
  std::vector<std::string> names;
  for (auto& t : files.tensors()) names.emplace_back(t.name);
  EXPECT_THAT(names, ElementsAre("b", "c", bad::kIndexed));
  EXPECT_THAT(files.find("b")->floats("x"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(files.find("c")->floats("x"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(files.paths().size(), 2u);
}

TEST(ModelFiles, ATensorLargerThanAShardGetsItsOwnShard) {
  TempDir dir;
  write(dir.path(), 1);
  EXPECT_EQ(ModelFiles(dir.path()).paths().size(), 3u);
}

TEST(ModelFiles, SnapshotsOfTheHubsCacheLinkToItsBlobs) {
  TempDir dir;
  fs::create_directories(dir / "repo/blobs");
  fs::create_directories(dir / "repo/snapshots/rev");
  write(dir / "repo/blobs", 24);
  for (auto& e : fs::directory_iterator(dir / "repo/blobs"))
    fs::create_symlink("../../blobs/" + e.path().filename().string(),
                       dir / ("repo/snapshots/rev/" + e.path().filename().string()));
  EXPECT_EQ(ModelFiles(dir / "repo/snapshots/rev").tensors().size(), 3u);
}

TEST(ModelFiles, FoldersWithoutSafetensorsListTheirWeights) {
  TempDir dir;
  EXPECT_THAT(refusal([&] { ModelFiles files(dir.path()); }), HasSubstr("no model.safetensors"));
  put(dir / "pytorch_model.bin", "x");
  EXPECT_THAT(refusal([&] { ModelFiles files(dir.path()); }), HasSubstr("pytorch_model.bin), which can run code"));
  EXPECT_THAT(refusal([&] { ModelFiles files(dir / "nowhere"); }), HasSubstr("no such directory"));
}

TEST_P(BadIndexCase, IsRejectedWithAReason) {
  bad::put_odd_things(dir_.path());
  std::string text = with([](Json& j) { j.merge_patch(parse_json(GetParam().change, "change")); });
  EXPECT_THAT(text, HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(Table, BadIndexCase, testing::ValuesIn(bad::kIndexes),
                         [](auto& one) { return one.param.name; });

TEST_F(BadIndex, NamesAHundredThousandShards) {
  std::string map;
  for (int i = 0; i < 100'000; ++i) map += fmt::format("{}\"t{}\":\"s{}\"", i ? "," : "", i, i);
  put(path(), "{\"weight_map\":{" + map + "}}");
  EXPECT_THAT(refusal([&] { ModelFiles files(dir_.path()); }), HasSubstr("shard 's0' is missing"));
}
TEST_F(BadIndex, TotalSizeMayBeWrong) {  // many tools write it so; it is reported, not refused
  Json j = read_json(path());
  j["metadata"]["total_size"] = 1;
  put(path(), j.dump());
  EXPECT_EQ(ModelFiles(dir_.path()).tensors().size(), 3u);
}

}  // namespace
}  // namespace dml
