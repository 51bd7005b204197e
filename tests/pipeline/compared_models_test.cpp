#include "pipeline/compared_models.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace dml {
namespace {

TEST(ComparedModels, TakeNoneOnlyAlone) {
  const auto compare = [] { compared_models(Recipe(), {"outputs/lora", "none"}, std::nullopt); };
  EXPECT_THAT(compare, testing::ThrowsMessage<UserError>(testing::HasSubstr("--adapter none is the base alone")));
}

}  // namespace
}  // namespace dml
