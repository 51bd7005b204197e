#include "checkpoint/model_parts.h"

#include <numeric>

#include "core/error.h"
#include "fixture.h"

namespace dml {
namespace {
using namespace testing_tools;

std::vector<TensorInfo> three(DType dtype) {
  return {{"b", dtype, {50, 7}}, {"a", dtype, {3}}, {"counts", DType::i64, {2}}};
}

TEST(ModelParts, WrittenByTwoProcessesEqualThoseOfOneWriter) {
  std::vector<float> b(350), a{1, -2, 0.1f};
  std::iota(b.begin(), b.end(), 0.3f);
  const std::int64_t counts[2] = {7, 8};
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(counts), sizeof counts);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (std::size_t shard : {ModelShards::kDefaultBytes, std::size_t{700}}) {
      TempDir one, two;
      ModelWriter writer(one.path(), three(dtype), shard);
      for (const TensorInfo& t : writer.tensors())
        if (t.name == "counts") writer.append(counts, sizeof counts);
        else writer.append_floats(t.name == "b" ? b : a);
      writer.commit();

      ModelParts first(two.path(), three(dtype), shard), second(two.path(), three(dtype), shard);
      first.create();
      second.write_floats("b", 200, std::span(b).subspan(200));
      first.write_floats("b", 0, std::span(b).first(200));
      second.write_floats("a", 1, std::span(a).subspan(1));
      first.write_floats("a", 0, std::span(a).first(1));
      first.write("counts", bytes);
      second.commit();
      first.commit();
      ModelFiles files(one.path());
      for (const std::string& path : files.paths()) {
        const std::string name = path.substr(path.rfind('/') + 1);
        EXPECT_EQ(read_file(two.path() + "/" + name), read_file(path)) << name;
      }
      EXPECT_EQ(file_exists(two.path() + "/model.safetensors.index.json"), files.paths().size() > 1);
    }
}

TEST(ModelParts, AFolderThatRanksDoNotShareIsNamed) {
  TempDir here;
  ModelParts parts(here.path(), three(DType::f32));
  EXPECT_THROW(parts.write_floats("a", 0, std::vector<float>(3)), IoError);  // nobody created it
  EXPECT_THROW(parts.write_floats("c", 0, {}), Error);
}

}  // namespace
}  // namespace dml
