// The black-box checks of the command-line contract, if they are available.
#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

class Acceptance : public testing::TestWithParam<const char*> {};

TEST_P(Acceptance, ScriptAgrees) {
  std::string script = shared(fmt::format("acceptance/{}.py", GetParam()));
  if (!file_exists(script)) GTEST_SKIP() << script << " is not there";
  if (!has_program("python3")) GTEST_SKIP() << "python3 is not there";
  Ended e = run({"python3", script, "--dml", dml_path()}, {.timeout = 2 * kPatience});
  EXPECT_EQ(e.exit, 0) << e.out << e.err;
}

INSTANTIATE_TEST_SUITE_P(BlackBox, Acceptance,
                         testing::Values("greedy", "traces", "tokenizers", "templates", "recipes", "optimizers",
                                         "evals", "serve"),
                         [](auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace dml::e2e
