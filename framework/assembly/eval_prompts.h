// Tokenizes the rows of evaluations, in the format of a recipe or by the model's own chat template, as `dml infer`
// does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assembly/prompt_format.h"
#include "evaluate/eval_task.h"
#include "model/spec.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

class AnsweringPrompts : public EvalPrompts {
 public:
  /// `recipe` may be null; the template is then the tokenizer's. stop_tokens() includes end_tokens() of the model.
  AnsweringPrompts(const Recipe* recipe, const Tokenizer& tokenizer, const ModelSpec& spec,
                   const std::string& generation_directory = "");
  ~AnsweringPrompts() override;

  std::vector<Token> prompt(const Json& row, bool raw) const override;
  std::unique_ptr<StreamDecoder> answer_text(const std::vector<Token>& prompt, bool raw) const override;
  std::vector<Token> plain(const std::string& text) const override;
  Token prefix() const override;
  Continued continued(const Json& row, const std::string& text, bool raw) const override;
  std::vector<Token> stop_tokens(bool raw) const override;

 private:
  // Special tokens that are spelled out are parsed if `raw`: in training they are not.
  std::vector<Token> text_ids(const std::string& text, bool raw) const;
  std::vector<Token> checked(std::vector<Token> ids) const;
  Continued continued_text(const std::string& context, const std::string& text, bool raw) const;

  const Tokenizer& tokenizer_;
  std::int64_t vocabulary_;
  std::vector<Token> ends_;
  AnsweringTemplate format_;
};

}  // namespace dml
