#include "checkpoint/model_report.h"

#include "checkpoint/model_config.h"
#include "fixture.h"
#include "model/weight_names.h"

namespace dml {
namespace {
using namespace testing_tools;
using testing::ElementsAre;
using testing::HasSubstr;

/// A two-layer model of zeros whose list of tensors may be changed before it is written.
class Weights : public testing::Test {
 protected:
  Weights() {
    for (auto& w : weight_names(spec_))
      if (w.first_row == 0) infos_.push_back({w.tensor, DType::f32, w.tensor_shape()});
  }
  ModelReport report() {
    SafetensorsWriter out(dir_ / "model.safetensors", infos_);
    for (auto& t : out.tensors())
      out.append(std::string(t.bytes(), t.name == "lm_head.weight" ? head_ : '\0').data(), t.bytes());
    out.commit();
    return report_weights(ModelFiles(dir_.path()), spec_);
  }
  TensorInfo& info(const std::string& name) { return *std::ranges::find(infos_, name, &TensorInfo::name); }

  ModelSpec spec_ = read_model_spec(DML_SOURCE_DIR "/tests/golden/llama_tiny/model");
  std::vector<TensorInfo> infos_;
  char head_ = 0;
  TempDir dir_;
};

TEST_F(Weights, ThatMatchHaveNothingToReport) {
  auto r = report();
  EXPECT_TRUE(r.errors.empty() && r.warnings.empty());
}

TEST_F(Weights, WithAnotherVocabularyNameTheKey) {
  info("model.embed_tokens.weight").shape[0] += 3;
  EXPECT_THAT(report().errors, ElementsAre(testing::AllOf(HasSubstr("'model.embed_tokens.weight' is [100, 32]"),
                                                          HasSubstr("(vocab_size is 97)"))));
}

TEST_F(Weights, ProblemsAreAllNamed) {
  info("model.norm.weight").shape = {7};
  info("model.layers.1.mlp.up_proj.weight").dtype = DType::i32;
  std::erase_if(infos_, [](auto& t) { return t.name == "lm_head.weight"; });
  report();
  EXPECT_THAT(
      refusal([&] { require_weights(ModelFiles(dir_.path()), spec_); }),
      testing::AllOf(HasSubstr("'model.norm.weight' is [7]"), HasSubstr("'model.layers.1.mlp.up_proj.weight' is I32"),
                     HasSubstr("'lm_head.weight' is missing")));
}

TEST_F(Weights, ATiedModelMayContainItsHead) {
  spec_.tied = true;
  EXPECT_TRUE(report().warnings.empty());
  head_ = 1;
  EXPECT_THAT(report().warnings, ElementsAre(HasSubstr("the embedding is used")));
}

TEST_F(Weights, UnusedTensorsAreNamedButForDerivedTables) {
  infos_.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {4}});
  infos_.push_back({"model.layers.9.mlp.up_proj.weight", DType::f32, {2, 2}});
  EXPECT_THAT(report().warnings, ElementsAre("tensor 'model.layers.9.mlp.up_proj.weight' [2, 2] is not used"));
}

TEST_F(Weights, OfABareDecoderAreFound) {
  spec_.tied = true;
  std::erase_if(infos_, [](auto& t) { return t.name == "lm_head.weight"; });
  for (auto& t : infos_) t.name = t.name.substr(6);
  auto r = report();
  EXPECT_TRUE(r.errors.empty() && r.warnings.empty());
}

}  // namespace
}  // namespace dml
