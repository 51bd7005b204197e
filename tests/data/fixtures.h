// A tokenizer whose ids are bytes, and a folder of its own for each test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// Byte b is id 16 + b; <s> 1, </s> 2, <|im_start|> 3, <|im_end|> 4. Puts <s> in front.
class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() {
    bos = 1;
    eos = 2;
    adds_bos = true;
    digest = "bytes";
  }
  void encode_into(Encoding& out, std::string_view text, const EncodeOptions& options) const override {
    out = {};
    if (options.add_special && adds_bos) out.ids.push_back(*bos), out.offsets.push_back({0, 0});
    for (std::uint32_t i = 0; i < text.size();) {
      Token special = 0;
      for (Token id = 1; id <= 4; ++id)
        if (options.parse_special && text.substr(i).starts_with(kSpecial[id]) && !literal(i, options)) special = id;
      std::uint32_t size = special ? static_cast<std::uint32_t>(kSpecial[special].size()) : 1;
      out.ids.push_back(special ? special : 16 + static_cast<unsigned char>(text[i]));
      out.offsets.push_back({i, i + size});
      i += size;
    }
    if (options.add_special && adds_eos) {
      auto n = static_cast<std::uint32_t>(text.size());
      out.ids.push_back(*eos), out.offsets.push_back({n, n});
    }
  }
  std::string decode(std::span<const Token> ids, bool skip_special = false) const override {
    std::string out;
    for (Token id : ids)
      if (id >= 16 || !skip_special) out += piece(id);
    return out;
  }
  std::unique_ptr<StreamDecoder> stream(bool skip_special) const override {
    class Stream : public StreamDecoder {
     public:
      Stream(const ByteTokenizer& tokenizer, bool skip) : tokenizer_(tokenizer), skip_(skip) {}
      std::string next(Token id) override { return skip_ && id < 16 ? "" : tokenizer_.piece(id); }
      std::string finish() override { return ""; }

     private:
      const ByteTokenizer& tokenizer_;
      bool skip_;
    };
    return std::make_unique<Stream>(*this, skip_special);
  }
  Token size() const override { return 16 + 256; }
  std::string piece(Token id) const override {
    return id >= 16             ? std::string(1, static_cast<char>(id - 16))
           : id >= 1 && id <= 4 ? std::string(kSpecial[id])
                                : "<unk>";
  }
  std::string text_bytes(Token id, bool) const override { return piece(id); }
  std::optional<Token> find(std::string_view piece) const override {
    for (Token id = 1; id <= 4; ++id)
      if (kSpecial[id] == piece) return id;
    return piece.size() == 1 ? std::optional<Token>(16 + static_cast<unsigned char>(piece[0])) : std::nullopt;
  }
  bool is_special(Token id) const override { return id < 16; }

 private:
  static constexpr std::string_view kSpecial[5] = {"", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
  static bool literal(std::uint32_t at, const EncodeOptions& options) {
    for (auto range : options.literal)
      if (at >= range.begin && at < range.end) return true;
    return false;
  }
};

class FolderTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }

  testing_tools::TemporaryFolder owned_;
  std::filesystem::path folder_ = owned_.path();
};

/// The message of the error a call throws, "" when it throws none.
template <class E, class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace dml
