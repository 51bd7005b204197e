// The two simple models: WordPiece (greedy longest match, "##" before continuations) and WordLevel (a table).
#pragma once

#include <string>

#include "tokenizer/stages/model.h"

namespace dml {

class WordPiece : public Model {
 public:
  Token unk = -1;
  std::string continuing_prefix = "##";
  std::size_t max_characters = 100;  // longer words are unknown
  void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const override;
};

class WordLevel : public Model {
 public:
  Token unk = -1;
  void encode(std::string_view word, std::uint32_t base, Encoding& out, ModelScratch& scratch) const override;
};

}  // namespace dml
