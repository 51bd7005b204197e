// A custom evaluation: its rows, its checks, and its results.
//
// A check needs either an answer (exact, contains, regex, json_valid, json_schema, command) or a log-likelihood
// (choice, continuation, perplexity). All checks of an evaluation use the same rows; answers are generated once for all
// of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/packed_batch.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct EvalRow {
  Json json;             // an object
  std::string place;     // "FILE:LINE"; "" for a row of a recipe
  std::string key = {};  // "evals.0.prompts.2": a row of a recipe
};

/// The string under this key; "" if there is none.
inline std::string text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A requested check: its name, its argument ("regex: PATTERN") and further options. `key`: its place in the recipe
/// ("evals.0.checks.1"), for errors.
struct CheckRequest {
  std::string name;
  Json value, options = Json::object();
  std::string key = {};
};

struct EvalTask {
  std::string name;
  std::string key = {};  // its place in the recipe ("evals.0"), for errors
  std::vector<EvalRow> rows;
  bool raw = false;  // prompts are used without a template
  std::int64_t max_new_tokens = 256;
  std::vector<std::string> until = {};  // strings that end an answer; not included in it
  std::vector<CheckRequest> checks;
  std::map<std::string, double> fail_below;  // by metric: the lowest value that passes
};

/// A metric of an evaluation. `error`: its standard error (sample standard deviation over √n); 0 if there is none.
struct EvalValue {
  std::string name;
  double value = 0, error = 0;
  bool greater_is_better = true;
};

/// The answer to one row, and the results of its checks.
struct EvalAnswer {
  std::string prompt, reference, output;
  Json checks = Json::object();  // by check: {"pass": …} and the judge's additions
};

struct EvalResult {
  std::string name;
  std::int64_t rows = 0;
  std::vector<EvalValue> values;
  std::vector<EvalAnswer> answers;    // in the order of the rows, if some check needs answers
  std::vector<std::string> problems;  // failures of judges

  const EvalValue* find(const std::string& metric) const;
};

/// Converts rows to tokens and tokens to text; shared by all compared models.
class EvalPrompts {
 public:
  virtual ~EvalPrompts() = default;
  /// The prompt of a row, with the template unless `raw`. UserError for a row without one.
  virtual std::vector<Token> prompt(const Json& row, bool raw) const = 0;
  /// Decodes the answer that is generated for a prompt: its tokens are decoded alone, as lm-evaluation-harness does, so
  /// a tokenizer of SentencePiece's kind drops the space at their beginning.
  virtual std::unique_ptr<StreamDecoder> answer_text(const std::vector<Token>& prompt, bool raw) const = 0;
  /// The whole text of an answer.
  std::string answer(const std::vector<Token>& prompt, const std::vector<Token>& answer, bool raw) const {
    const auto decoder = answer_text(prompt, raw);
    std::string text;
    for (Token id : answer) text += decoder->next(id);
    return text + decoder->finish();
  }
  /// Token ids of a text without the tokens that the tokenizer adds.
  virtual std::vector<Token> plain(const std::string& text) const = 0;
  /// The token before a text without context: BOS, else EOS; −1 if there is neither.
  virtual Token prefix() const = 0;
  /// Token ids of a row's prompt and of a text as its answer. Where nothing separates the two, they are tokenized
  /// together, as in training, and spaces at the end of a raw prompt belong to the text.
  /// UserError for a row without a prompt, unless `raw`.
  struct Continued {
    std::vector<Token> context, continuation;
  };
  virtual Continued continued(const Json& row, const std::string& text, bool raw) const = 0;
  /// The stop tokens.
  virtual std::vector<Token> stop_tokens(bool raw) const = 0;
};

}  // namespace dml
