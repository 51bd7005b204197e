// dml infer: answers one prompt, holds a conversation, or answers the rows of a file, with the template of the
// training.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assembly/answer_format.h"
#include "assembly/base_model.h"
#include "core/json.h"
#include "generate/generator.h"
#include "recipe/recipe.h"

namespace dml {

struct InferOptions {
  std::optional<std::string> base_model;  // instead of the recipe's
  std::vector<std::string> adapters;      // DIR or DIR=WEIGHT; "none": the base alone; empty: the recipe's result
  bool raw = false;                       // use the prompt without a template
  std::vector<std::string> stops;         // strings that end an answer; not included in it
  std::shared_ptr<Automaton> constraint;  // restricts every answer; null: none
  bool long_answers = false;              // max_new_tokens was given: warn when the context is shorter
  GenerationOptions generation;
};

/// An answer. With stops, `text` ends before the first of them, `tokens` with the token that completed it.
struct Answer {
  std::string text;
  std::vector<Token> tokens;
  std::vector<float> logprobs;
  StopReason reason = StopReason::length;
  std::optional<double> reward = {};  // with best-of-n sampling
};

class BestOf;  // pipeline/best_of.h

class Assistant {
 public:
  /// Loads model, adapter, tokenizer and template. `recipe` may be null if base_model is set: tokenizer, template and
  /// stop tokens are then those of the adapter's folder, if it has them, else the model's.
  Assistant(const Recipe* recipe, const InferOptions& options);
  ~Assistant();

  /// Token ids of a row in the dataset's format. {"prompt": …} always works, {"messages": …} if there is a chat
  /// template. UserError for a row without a prompt, or one that fills the context.
  std::vector<Token> prompt_ids(const Json& row) const { return format_->prompt_ids(row); }
  /// Generates for one prompt. `on_text` receives new text in pieces of whole characters; false stops. `attempt`
  /// selects other random numbers for the same prompt.
  Answer answer(const std::vector<Token>& prompt, const std::function<bool(const std::string&)>& on_text = {},
                std::size_t attempt = 0);
  /// Called with every answer when it is complete.
  using OnAnswer = std::function<void(std::size_t prompt, const Answer& answer)>;
  /// Generates for several prompts, eight at a time. `first`: index of the first prompt in the whole input, so that
  /// each has its own random numbers.
  std::vector<Answer> answers(std::span<const std::vector<Token>> prompts, std::size_t first = 0,
                              const OnAnswer& on_answer = {});
  /// [{"token": …, "id": …, "logprob": …}, …]; log-probabilities are the model's, before penalties and filters.
  Json logprobs(const Answer& answer) const;

  /// Keeps the key-value cache between answers as far as memory allows, for conversations.
  void keep_cache();
  const GenerationSpeed& speed() const { return generator_->speed(); }
  /// Whether the format supports conversations of several messages.
  bool chats() const { return format_->chats(); }
  /// The row, in the dataset's format, of a conversation of {"role": …, "content": …}.
  Json row_of_messages(const Json& messages) const { return format_->row_of_messages(messages); }
  GenerationOptions& generation() { return options_.generation; }
  /// Maximum number of tokens of a prompt and its answer.
  std::int64_t context() const { return model_->spec.max_positions; }
  /// A description of the loaded model.
  const std::string& description() const { return description_; }

 private:
  void require_memory(std::span<const std::vector<Token>> prompts) const;
  void report_limit(std::span<const std::vector<Token>> prompts, std::span<const Answer> answers);  // once
  std::vector<Answer> run(std::span<const std::vector<Token>> prompts,
                          const std::function<bool(const std::string&)>& on_text, std::size_t first,
                          const OnAnswer& on_answer = {});

  InferOptions options_;
  BaseModel base_;
  std::unique_ptr<CausalLm> model_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<AnswerFormat> format_;
  std::string description_;
  bool said_limit_ = false, said_cut_ = false;
};

struct AnsweredFile {
  std::string input, output;
  bool resume = false;     // continue the output of an interrupted run (pipeline/kept_rows.h)
  bool logprobs = false;   // add "logprobs" to every row
  BestOf* best = nullptr;  // each answer is the best of several, with its "reward"
};
/// Answers every row of `input` (JSON lines) and writes the rows to `output`, in order, with "output" added, each as
/// soon as it and those before it are answered.
void answer_file(Assistant& assistant, const AnsweredFile& file);

}  // namespace dml
