// The container: compared with the bytes of llama.cpp's own writer; invalid files of every kind that llama.cpp's tests
// name.
#include "exchange/gguf_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/error.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::HasSubstr;

// Written by gguf-py: two keys of every kind that matters, two tensors.
constexpr std::string_view kGoldenFile =
    "474755460300000002000000000000000600000000000000140000000000000067656e6572616c2e6172636869746563747572650800000005"
    "000000000000006c6c616d610c0000000000000067656e6572616c2e747970650800000005000000000000006d6f64656c1100000000000000"
    "6c6c616d612e626c6f636b5f636f756e74040000000100000014000000000000006c6c616d612e726f70652e667265715f6261736506000000"
    "00401c461c00000000000000746f6b656e697a65722e67676d6c2e6164645f626f735f746f6b656e07000000011500000000000000746f6b65"
    "6e697a65722e67676d6c2e746f6b656e7309000000080000000200000000000000010000000000000061030000000000000062c3a911000000"
    "00000000746f6b656e5f656d62642e776569676874020000000300000000000000020000000000000000000000000000000000000012000000"
    "000000006f75747075745f6e6f726d2e7765696768740100000003000000000000000000000020000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000803f0000004000004040000080400000a04000000000000000000000803f0000803f"
    "0000803f0000000000000000000000000000000000000000";

std::string golden_bytes() {
  std::string out;
  for (std::size_t i = 0; i < kGoldenFile.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(kGoldenFile.substr(i, 2)), nullptr, 16));
  return out;
}

class GgufFiles : public testing::Test {
 protected:
  std::string put(const std::string& bytes) const {
    const std::string path = folder_ / "model.gguf";
    std::filesystem::remove(path);  // a file that is overwritten waits for the disk
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string refusal(const std::string& bytes) const {
    try {
      GgufFile file(put(bytes));
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  }
  const testing_tools::TemporaryFolder folder_;
};

GgufMetadata small_metadata() {
  GgufMetadata m;
  m.set("general.architecture", GgufValue::text("llama"));
  m.set("general.type", GgufValue::text("model"));
  m.set("llama.block_count", GgufValue::u32(1));
  m.set("llama.rope.freq_base", GgufValue::f32(10000));
  m.set("tokenizer.ggml.add_bos_token", GgufValue::boolean(true));
  m.set("tokenizer.ggml.tokens", GgufValue::texts({"a", "b\u00e9"}));
  return m;
}

const GgmlType& float32() { return ggml_type(DType::f32); }

TEST_F(GgufFiles, AreWrittenAsByLlamaCpp) {
  const std::string path = folder_ / "written.gguf";
  GgufWriter out(path, small_metadata(),
                 {{"token_embd.weight", {2, 3}, &float32()}, {"output_norm.weight", {3}, &float32()}});
  const float values[] = {0, 1, 2, 3, 4, 5}, ones[] = {1, 1, 1};
  out.append(values, 8);
  out.append(values + 2, 16);
  out.append(ones, 12);
  out.commit();
  EXPECT_EQ(read_file(path), golden_bytes());
}

TEST_F(GgufFiles, AreReadAsTheyWereWritten) {
  GgufFile file(put(golden_bytes()));
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.block_count"), 1);
  EXPECT_EQ(file.number("llama.rope.freq_base"), 10000);
  EXPECT_TRUE(file.truth("tokenizer.ggml.add_bos_token", false));
  EXPECT_THAT(file.metadata().find("tokenizer.ggml.tokens")->strings(), testing::ElementsAre("a", "b\u00e9"));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_THAT(file.tensors()[0].shape, testing::ElementsAre(2, 3));
  float x[6];
  std::memcpy(x, file.find("token_embd.weight")->data.data(), sizeof x);
  EXPECT_THAT(x, testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT([&] { file.integer("llama.rope.freq_base"); },
              testing::ThrowsMessage<UserError>(HasSubstr("a whole number")));
  EXPECT_THAT([&] { file.text("llama.name"); },
              testing::ThrowsMessage<UserError>(HasSubstr("key 'llama.name' is missing")));
}

std::string with(std::string bytes, std::size_t at, std::uint64_t value, std::size_t width) {
  std::memcpy(bytes.data() + at, &value, width);
  return bytes;
}

TEST_F(GgufFiles, ThatAreWrongAreRefusedWithTheirPlace) {
  const std::string good = golden_bytes();
  const std::size_t info = good.find("token_embd.weight") - 8, second = good.find("output_norm.weight") - 8;
  const std::size_t blocks = good.find("llama.block_count") + 17, tokens = good.find("tokenizer.ggml.tokens") + 21;
  const std::size_t dims = info + 8 + 17;
  struct Case {
    std::string bytes, says;
  };
  const Case cases[] = {
      {"", "not a GGUF file"},
      {"GGML" + good.substr(4), "not a GGUF file"},
      {with(good, 4, 1, 4), "version 1; 2 and 3"},
      {with(good, 4, 4, 4), "version 4"},
      {with(good, 4, 0x03000000, 4), "big-endian"},
      {with(good, 8, 1ull << 60, 8), "tensors in a file of"},
      {with(good, 16, 1ull << 60, 8), "keys in a file of"},
      {with(good, 24, 1ull << 40, 8), "a text of"},
      {with(good, 24, 0, 8), "a key of 0 bytes"},
      {with(good, blocks, 13, 4), "unknown type 13"},
      {with(good, tokens + 4, 9, 4), "an array of arrays"},
      {with(good, tokens + 8, 1ull << 50, 8), "an array of"},
      {with(good, info, 64, 8), "name of 64 bytes"},
      {with(good, dims, 5, 4), "5 dimensions"},
      {with(good, dims, 0, 4), "0 dimensions"},
      {with(good, dims + 4, 1ull << 62, 8), "is too large"},
      {with(good, dims + 20, 99, 4), "the unknown type 99"},
      {with(good, dims + 20, 8, 4), "needs a multiple of 32"},
      {with(good, dims + 24, 32, 8), "said to begin at 32"},
      {good.substr(0, good.size() - 40), "it was cut off"},
      {good.substr(0, 200), "are left"},
  };
  for (const Case& c : cases) {
    const std::string text = refusal(c.bytes);
    EXPECT_THAT(text, HasSubstr(c.says));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  std::string twice = good;
  std::memcpy(twice.data() + second, good.data() + info, 25);  // the names differ in length: shift the rest
  EXPECT_NE(refusal(twice), "");
  GgufMetadata m = small_metadata();
  m.set("general.alignment", GgufValue::u32(48));
  GgufWriter out(folder_ / "odd.gguf", m, {{"a", {1}, &float32()}});
  out.append(m.all().data(), 4);
  out.commit();
  EXPECT_THAT([&] { GgufFile(folder_ / "odd.gguf"); },
              testing::ThrowsMessage<UserError>(HasSubstr("must be a power of two")));
}

TEST_F(GgufFiles, SurviveMutations) {
  const std::string good = golden_bytes();
  std::mt19937 random(7);
  auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (std::size_t change = 0; change <= below(4); ++change) switch (below(4)) {
        case 0:
          bytes[below(bytes.size())] = static_cast<char>(below(256));
          break;
        case 1:
          bytes = with(bytes, below(bytes.size() - 8), ~std::uint64_t{0} >> below(64), 8);
          break;
        case 2:
          bytes.resize(24 + below(bytes.size() - 24));
          break;
        default:
          bytes.insert(below(bytes.size()), std::string(1 + below(9), static_cast<char>(below(256))));
      }
    if (bytes.size() < 33) continue;
    try {
      GgufFile file(put(bytes));
      for (const GgufTensorView& t : file.tensors()) ASSERT_EQ(static_cast<std::int64_t>(t.data.size()), t.bytes());
    } catch (const UserError& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace dml
