// llama.cpp identifies pre-tokenizers by their result on one text: the SHA-256 of Python's str(list of ids). The digest
// depends on the vocabulary, so a tokenizer trained from scratch is identified by its pattern only.
#include "core/sha.h"
#include "exchange/gguf_vocabulary.h"
#include "tokenizer/text/scanner.h"

#include <fmt/ranges.h>

namespace dml {
namespace {

struct Known {
  std::string_view name, digest;
};

constexpr Known kKnown[] = {
    {"llama-bpe", "0ef9807a4087ebef797fc749390439009c3b9eda9ad1a097abbe738f486c01e5"},
    {"gpt-2", "3ce83efda5659b07b1ad37ca97ca5797ea4285d9b9ab0dc679e4a720c9da7454"},
    {"qwen2", "e636dc30a262dcc0d8c323492e32ae2b70728f4df7dfe9737d9f920a282b8aea"},
    {"smollm", "855059429035d75a914d1eda9f10a876752e281a054a7a3d421ef0533e5b6249"},
    {"stablelm2", "32d85c31273f8019248f2559fed492d929ea28b17e51d81d3bb36fff23ca72b3"},
    {"phi-2", "fcace8b9cac38ce847670c970cd5892031a753a1ef381abd1d9af00f713da085"},
    {"tekken", "63b97e4253352e6f357cc59ea5b583e3a680eaeaf2632188c2b952de2588485e"},
    {"falcon3", "9d032fcbd5501f4a38150912590928bfb36091efb5df11b8e2124b0390e3fb1e"},
    {"falcon", "8aeee3860c56296a157a1fe2fad249ec40aa59b1bb5709f4ade11c4e6fe652ed"},
    {"starcoder", "35d91631860c815f952d711435f48d356ebac988362536bed955d43bfa436e34"},
    {"olmo", "b6dc8df998e1cfbdc4eac8243701a65afe638679230920b50d6f17d81c098166"},
    {"command-r", "9c2227e4dd922002fb81bde4fc02b0483ca4f12911410dee2255e4987644e3f8"},
    {"deepseek-llm", "049ecf7629871e3041641907f3de7c733e4dbfdc736f57d882ba0b0845599754"},
    {"deepseek-coder", "347715f544604f9118bb75ed199f68779f423cabb20db6de6f31b908d04d7821"},
    {"deepseek-v3", "877081d19cf6996e2c4ff0e1236341e9b7bde288f5311a56a937f0afbbb3aeb5"},
    {"deepseek-r1-qwen", "b3f499bb4255f8ca19fccd664443283318f2fd2414d5e0b040fbdd0cc195d6c5"},
    {"refact", "6221ad2852e85ce96f791f476e0b390cf9b474c9e3d1362f53a24a06dc8220ff"},
};

}  // namespace

std::string_view pre_tokenizer_probe() {
  return "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\u200d🌫️ (multiple emojis "
         "concatenated) "
         "✅ "
         "🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 "
         "កាន់តែពិសេសអាច😁 "
         "?我想在apple工作1314151天～ ------======= нещо на Български ''''''```````\"\"\"\"......!!!!!!?????? I've "
         "been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? We'Ve a'lL";
}

std::string pre_tokenizer_digest(std::span<const Token> ids) {
  return Sha256().update(fmt::format("[{}]", fmt::join(ids, ", "))).hex();
}

std::string pre_tokenizer_of_digest(std::string_view digest) {
  for (const Known& k : kKnown)
    if (k.digest == digest) return std::string(k.name);
  return {};
}

std::string pre_tokenizer_of_pattern(std::string_view pattern, bool digits) {
  if (pattern == Scanner::gpt2_pattern()) return digits ? "smollm" : "gpt-2";
  if (pattern == Scanner::cl100k_pattern(3)) return digits ? "" : "llama-bpe";
  if (pattern == Scanner::cl100k_pattern(1)) return "qwen2";  // the pattern splits digits anyway
  return {};
}

}  // namespace dml
