// Settings of a conversation.
#include "cli/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

TEST(ChatSettings, OfSamplingEndGreedyAndDoNotGoWithBeams) {
  for (const char* key : {"temperature", "top-k", "top-p", "min-p"}) {
    GenerationOptions options;
    options.sampling.greedy = true;
    set_generation_option(options, "seed", "3");
    EXPECT_TRUE(options.sampling.greedy);
    set_generation_option(options, key, "1");
    EXPECT_FALSE(options.sampling.greedy) << key;
    options.beams = 2;
    EXPECT_THAT([&] { set_generation_option(options, key, "1"); },
                testing::ThrowsMessage<UserError>(testing::HasSubstr("beam search")));
  }
}

}  // namespace
}  // namespace dml
