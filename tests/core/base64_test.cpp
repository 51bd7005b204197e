// Base64: the vectors of RFC 4648, every byte there and back, and texts that are none.
#include "core/base64.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(Base64, HasTheVectorsOfItsStandard) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (std::size_t size : {254, 255, 256}) EXPECT_EQ(from_base64(to_base64(all.substr(0, size))), all.substr(0, size));
  EXPECT_EQ(from_base64("Zg"), "f");
  for (const char* wrong : {"Zg==Zg", "Z g=", "Zg-_", "\n"}) EXPECT_EQ(from_base64(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace dml
