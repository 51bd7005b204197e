// Prompt strategies convert a record of a dataset to pieces of text, each trained or not. Labels follow from the
// pieces; no strategy ever sees token ids.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/packed_batch.h"
#include "core/registry.h"

namespace dml {

struct DatasetEntry;  // recipe/recipe.h
struct DatasetType;
enum class RowKind;

struct Piece {
  std::string_view text;
  bool trained = false;  // its tokens have labels
  bool markup = false;   // template text: special tokens spelled out in it are parsed
};

/// Text that is tokenized together. Labels follow from the spans of its pieces: a token belongs to the piece that
/// contains its first byte that is not a space. The pieces are concatenated in one string, as the tokenizer requires.
struct Segment {
  struct Span {
    std::size_t end;  // offset in `text`; the span starts where the previous one ends
    bool trained, markup;
    float weight = 1;  // weight of the losses of its tokens

    bool continued_by(const Span& next) const {
      return trained == next.trained && markup == next.markup && weight == next.weight;
    }
  };
  std::string text;
  std::vector<Span> spans;
  bool add_special = false;  // add the tokenizer's BOS (at the start of an example)
  bool end_of_text = false;  // append EOS unless the last id is EOS or the segment is empty
  int ends = 1;              // number of EOS tokens to append
  bool end_trained = false;  // whether the appended EOS is trained
  Token label =
      kIgnore;  // label of the last token, if set: the class of a step; the tokens themselves are not trained then

  void add(std::string_view piece, bool trained, bool markup) {
    text += piece;
    spans.push_back({text.size(), trained, markup});
  }
  /// Text of the template, whose special tokens are parsed.
  void add_markup(std::string_view piece) { add(piece, false, true); }
  /// Text of the data that is only read.
  void add_read(std::string_view piece) { add(piece, false, false); }
  /// Text of the data that is trained.
  void add_trained(std::string_view piece) { add(piece, true, false); }
  void clear() {
    text.clear();
    spans.clear();
    add_special = end_of_text = end_trained = false;
    ends = 1;
    label = kIgnore;
  }
  std::vector<Piece> pieces() const {
    std::vector<Piece> out;
    std::size_t begin = 0;
    for (const Span& span : spans) {
      out.push_back({std::string_view(text).substr(begin, span.end - begin), span.trained, span.markup});
      begin = span.end;
    }
    return out;
  }
};

/// Which optional fields of the data, named by a dataset, were there.
struct SeenFields {
  bool training = false, training_detail = false, message_weight = false, row_weight = false;

  SeenFields& operator|=(const SeenFields& o) {
    training |= o.training, training_detail |= o.training_detail;
    message_weight |= o.message_weight, row_weight |= o.row_weight;
    return *this;
  }
};

/// One training example before tokenization.
struct Rendered {
  std::vector<Segment> segments;
  std::vector<Token> ids = {}, labels = {};  // pre-tokenized rows: used unchanged, `segments` is empty
  bool chunk = false;  // if longer than sequence_len, split into several examples, whatever excess_length_strategy says
  std::string untrained_reason = {};  // why the row has no trained tokens, if the strategy knows
  std::string left_out = {};          // the role of a message that the template does not write; "" if there is none
  SeenFields fields = {};
  std::int64_t most_after = 0;  // maximum number of tokens after the first segment; the rest is truncated; 0: no limit
  DocumentRole role = DocumentRole::alone;  // of a pair: chosen, then rejected, both from one record

  /// The texts of all segments, end to end.
  std::string text() const {
    std::string out;
    for (const Segment& segment : segments) out += segment.text;
    return out;
  }
};

/// A list of one element, made without the copy of an initializer list.
inline std::vector<Rendered> single(Rendered&& one) {
  std::vector<Rendered> out;
  out.push_back(std::move(one));
  return out;
}

class PromptStrategy {
 public:
  virtual ~PromptStrategy() = default;
  /// Converts a record to examples (usually one). UserError naming the field of a record that it cannot read; the
  /// caller adds file and line. Thread-safe.
  virtual std::vector<Rendered> render(const Json& record) const = 0;
  /// Like render(), but sets `out`. Strategies for many short rows override it to reuse the memory of `out`.
  virtual void render_into(std::vector<Rendered>& out, const Json& record) const { out = render(record); }
  /// The text up to the point where the model answers, for inference; same template as in training.
  virtual Rendered prompt(const Json& record) const = 0;
  /// A prompt and its answer, laid out like a row's; `system` may be empty. Unset for formats in which an answer is its
  /// text and EOS.
  virtual std::optional<Rendered> turn(std::string_view /*system*/, std::string_view /*prompt*/,
                                       std::string_view /*answer*/) const {
    return std::nullopt;
  }
  /// Appends an answer to a prompt(), so that it is tokenized as in training: with the text of the prompt, unless the
  /// format separates them.
  virtual void add_answer(Rendered& prompt, std::string_view answer) const { prompt.segments.back().add_read(answer); }
  /// Everything that affects render(), for the cache key.
  virtual std::string fingerprint() const = 0;
  /// The inputs of fingerprint() by the names of their keys, so that a message can name what changed.
  virtual std::vector<std::pair<std::string, std::string>> inputs() const { return {{"type", fingerprint()}}; }
  /// A line for the header: format, template and mask.
  virtual std::string description() const = 0;
};

/// The arguments of a strategy's factory; they need not outlive the call.
struct PromptContext {
  const DatasetEntry* dataset = nullptr;  // type, fields, roles, template of this dataset
  RowKind rows = {};                      // the kind of rows: text, pair of answers, labeled answer, prompt
  bool train_on_inputs = false;
  std::string tokenizer_template;  // default template of the model directory
  std::vector<std::pair<std::string, std::string>> named_templates;
  std::string bos_token, eos_token, pad_token, unk_token;
  std::string chat_template, chat_template_jinja;  // the recipe's global choice
  Json chat_template_kwargs = Json::object();
  std::vector<std::string> eot_tokens;
  std::string default_system_message;  // for conversations without one
  bool keep_answers = false;  // prompt() keeps the assistant's last messages: they are part of the conversation
  bool trains = true;         // if not, there are no warnings about what a model learns
};

using PromptFactory = std::function<std::unique_ptr<PromptStrategy>(const PromptContext&)>;
/// alpaca, completion, chat_template, … with Axolotl's spellings ("alpaca:chat", "alpaca_chat.load_qa" …).
Registry<PromptFactory>& prompt_strategies();

/// UserError when no row of the table has the type's name, naming the nearest one.
void check_prompt_type(const DatasetType& type, RowKind rows);
/// The strategy of context.dataset->type: a row of the table, a custom format, or pre-tokenized rows.
std::unique_ptr<PromptStrategy> make_prompt_strategy(const PromptContext& context);

}  // namespace dml
