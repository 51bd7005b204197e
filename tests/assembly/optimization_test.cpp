// optim_target_modules beside the parameters of a model.
#include "assembly/optimization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/golden.h"

namespace dml {
namespace {

using testing::ElementsAre;

TEST(OptimizerTargets, ThatMatchNothingAreNamed) {
  const GoldenBatch batch(golden_path("llama_tiny") + "/batch.json");
  const GoldenModel golden("llama_tiny", false, batch);
  const auto idle = [&](const std::string& optimizer, std::vector<std::string> modules) {
    OptimSection optim;
    optim.optimizer = optimizer;
    optim.optim_target_modules = std::move(modules);
    return idle_optimizer_targets(golden.model->parameters, optim);
  };
  for (const char* optimizer : {"galore_adamw", "apollo_adamw"}) {
    EXPECT_THAT(idle(optimizer, {"mlp", "self_attn", ".*q_proj"}), ElementsAre());
    EXPECT_THAT(idle(optimizer, {"all-linear"}), ElementsAre());
    EXPECT_THAT(idle(optimizer, {"mlp", "self_atn"}),
                ElementsAre("'optim_target_modules': no trained matrix has 'self_atn' in its name; did you mean "
                            "'self_attn'?"));
    EXPECT_THROW(idle(optimizer, {"xyz"}), UserError);
    EXPECT_THROW(idle(optimizer, {"embed_tokens"}), UserError);  // never projected
  }
  EXPECT_THAT(idle("adamw", {"xyz"}), ElementsAre());  // the recipe's check names the key
}

}  // namespace
}  // namespace dml
