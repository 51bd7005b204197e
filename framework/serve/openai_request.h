// Parses and checks requests of the OpenAI API: every field with its type and range; unknown ones are rejected.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "serve/constraints.h"
#include "serve/fields.h"
#include "serve/reply_parser.h"
#include "serve/served_model.h"
#include "serve/tools.h"

namespace dml {

/// The parsed request of a completion or a chat.
struct Asked {
  std::size_t model = 0;
  std::string model_name;
  bool chat = false, continued = false;  // continued: the answer extends the last message
  std::vector<std::vector<Token>> prompts;
  std::vector<std::string> texts;  // texts of the prompts, for echo
  int n = 1;
  EngineRequest engine;      // common to all choices; prompt, number and max_new_tokens are set per choice
  std::int64_t context = 0;  // maximum number of tokens of a prompt and its answer
  std::vector<std::string> stops;
  bool include_stop = false;  // the stop string is included in the answer
  bool stream = false, include_usage = false, echo = false, logprobs = false;
  int top_logprobs = 0;
  ReplyParser::Format reply;  // for chats only
  bool one_call = false;      // keep only the first of several tool calls
  bool specials = false;      // decode special tokens for the reply parser
};

class RequestReader {
 public:
  RequestReader(const ServedModels& models, Constraints& constraints) : models_(models), constraints_(constraints) {}

  Asked completion(const Json& body) const;
  Asked chat(const Json& body) const;
  /// The prompt of a chat as tokens.
  std::vector<Token> chat_tokens(Fields& fields) const;
  /// The prompt of a chat as text, rendered by the template.
  std::string apply_template(const Json& body) const;
  /// The fields input, model and encoding_format of /v1/embeddings.
  struct Embedding {
    std::size_t model = 0;
    std::string model_name;
    std::vector<std::vector<Token>> inputs;
    bool base64 = false;
  };
  Embedding embedding(const Json& body) const;
  std::size_t model_of(Fields& fields, std::string& name) const;
  /// ApiError 400 when prompt and answer exceed the context (context_length_exceeded), or when the prompt has a token
  /// that the model does not have, as a token that only an adapter adds.
  void check_prompt(std::size_t model, const std::vector<Token>& prompt, std::int64_t answer,
                    const std::string& param) const;

 private:
  struct ChatPrompt {
    Json row;
    AnswerFormat::ChatOptions options;
    ToolsAsked tools;
  };
  ChatPrompt chat_prompt(Fields& fields) const;
  void sampling(Fields& fields, Asked& asked) const;
  // The constraint that a request sets on its answer.
  struct AnswerConstraint {
    std::string param, key;
    Constraints::Make make;  // null: no constraint
    // Calls of tools may stand in the place of text that has a response_format.
    bool on_text() const { return param == "response_format"; }
  };
  std::vector<Token> chat_ids(const ChatPrompt& prompt, const AnswerConstraint& answer, Asked& asked) const;
  AnswerConstraint constraint(Fields& fields) const;
  // The constraint on the tokens of the reply; null: none.
  std::shared_ptr<TokenConstraint> token_constraint(const AnswerConstraint& answer, const ToolsAsked& tools,
                                                    const Asked& asked) const;
  void finish(Asked& asked, std::int64_t tokens, const std::string& param) const;
  std::vector<std::vector<Token>> token_lists(Fields& fields, const std::string& name, std::size_t model,
                                              std::vector<std::string>* texts) const;

  const ServedModels& models_;
  Constraints& constraints_;
};

}  // namespace dml
