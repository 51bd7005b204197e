// Reading every byte of a base: its digest, and values that are not finite.
#include <gmock/gmock.h>

#include <limits>

#include "assembly/base_model.h"
#include "checkpoint/fixture.h"
#include "checkpoint/model_files.h"
#include "core/hash.h"
#include "dist/thread_ranks.h"

namespace dml {
namespace {

using testing::HasSubstr;
using testing_tools::refusal;
using testing_tools::TempDir;

constexpr std::int64_t kRows = 1100, kCols = 1024;  // as float32 4.3 MB: a piece and a bit

// One matrix of each type, all ones but for one element.
class Examination : public testing::Test {
 protected:
  BaseModel base(const std::string& odd_tensor = "", std::int64_t element = 0, double odd = 1) {
    std::vector<TensorInfo> infos;
    for (auto [name, dtype] : {std::pair{"a", DType::f32}, {"b", DType::bf16}, {"c", DType::f16}, {"d", DType::f64}})
      infos.push_back({name, dtype, {kRows, kCols}});
    infos.push_back({"e", DType::f32, {3}});
    ModelWriter writer(dir_.path(), infos);
    for (const TensorInfo& t : writer.tensors()) {
      std::vector<double> values(static_cast<std::size_t>(t.size()), 1.0);
      if (t.name == odd_tensor) values[static_cast<std::size_t>(element)] = odd;
      if (t.dtype == DType::f64) writer.append(values.data(), values.size() * sizeof(double));
      else writer.append_floats(std::vector<float>(values.begin(), values.end()));
    }
    writer.commit();
    BaseModel base;
    base.config = {{"model_type", "llama"}};
    base.files = std::make_shared<ModelFiles>(dir_.path());
    return base;
  }
  std::string examined(const BaseModel& base) { return base.examine(*make_self_comm()); }
  std::string says(const std::string& tensor, std::int64_t element, double odd) {
    return refusal([&] { examined(base(tensor, element, odd)); });
  }

  TempDir dir_;
};

TEST_F(Examination, GivesTheDigestThatCheckpointsStore) {
  BaseModel b = base();
  Hasher h;
  h.text(dump(b.config));
  for (const TensorView& t : b.files->tensors()) h.text(t.name).number(t.bytes.size());
  for (const TensorView& t : b.files->tensors())
    for (std::size_t at = 0; at < t.bytes.size(); at += 4 << 20) {
      auto piece = t.bytes.subspan(at, std::min<std::size_t>(4 << 20, t.bytes.size() - at));
      h.number(Hasher().bytes(piece.data(), piece.size()).digest64());
    }
  EXPECT_EQ(examined(b), h.digest());
  for (int ranks : {2, 3}) {
    std::vector<std::string> digests(static_cast<std::size_t>(ranks));
    run_thread_ranks(ranks, [&](Comm& comm) { digests[static_cast<std::size_t>(comm.rank())] = b.examine(comm); });
    EXPECT_EQ(digests, std::vector(static_cast<std::size_t>(ranks), h.digest()));
  }
}

TEST_F(Examination, NamesTheElementThatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(says("a", 0, nan), HasSubstr("tensor 'a' is NaN or infinite at [0, 0]"));
  EXPECT_THAT(says("a", kRows * kCols - 1, -inf), HasSubstr("tensor 'a' is NaN or infinite at [1099, 1023]"));
  EXPECT_THAT(says("b", 5 * kCols + 63, inf), HasSubstr("tensor 'b' is NaN or infinite at [5, 63]"));
  EXPECT_THAT(says("c", 1024 * kCols + 64, nan), HasSubstr("tensor 'c' is NaN or infinite at [1024, 64]"));
  EXPECT_THAT(says("d", 1090 * kCols, 1e300), HasSubstr("tensor 'd' is NaN or infinite at [1090, 0]"));
  EXPECT_THAT(says("e", 2, nan), HasSubstr("tensor 'e' is NaN or infinite at [2]"));
  for (double fine : {3e38, 65504.0, -1e-45, 0.0}) EXPECT_NE(examined(base("a", 7, fine)), "");
}

TEST_F(Examination, OfSeveralRanksFailsOnAllOfThem) {
  BaseModel b = base("b", 600 * kCols + 1, std::numeric_limits<double>::infinity());
  EXPECT_THAT(refusal([&] { run_thread_ranks(3, [&](Comm& comm) { b.examine(comm); }); }), HasSubstr("tensor 'b'"));
}

}  // namespace
}  // namespace dml
