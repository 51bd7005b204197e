// A record of a dataset becomes pieces of text, each one trained or only read. What a piece says decides its labels; no
// strategy ever sees token ids.
#pragma once

#include <functional>
#include <memory>
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
  bool trained = false;  // its tokens get labels
  bool markup = false;   // template text: special tokens spelled out in it are parsed
};

/// Text that is tokenised in one go; labels come from the pieces' spans (a token belongs to the piece its first byte
/// that is no space is in). The pieces lie end to end in one string, as the tokenizer wants them.
struct Segment {
  struct Span {
    std::size_t end;  // in `text`; it begins where the one before ends
    bool trained, markup;
    float weight = 1;  // of the losses of what is trained

    bool continued_by(const Span& next) const {
      return trained == next.trained && markup == next.markup && weight == next.weight;
    }
  };
  std::string text;
  std::vector<Span> spans;
  bool add_special = false;  // with the tokenizer's own bos (at the front of an example)
  bool end_of_text = false;  // eos after it, unless the last id already is eos; an empty segment gets none
  int ends = 1;              // how many eos that is
  bool end_trained = false;  // … and whether that eos is trained
  Token label =
      kIgnore;  // of the last token, where one is trained: the class of a step, instead of the tokens themselves

  void add(std::string_view piece, bool trained, bool markup) {
    text += piece;
    spans.push_back({text.size(), trained, markup});
  }
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

/// One training example before tokenisation.
struct Rendered {
  std::vector<Segment> segments;
  std::vector<Token> ids = {}, labels = {};  // pre-tokenised rows: taken as they are, segments empty
  bool chunk = false;  // longer than sequence_len: cut into rows without loss, whatever the strategy for length
  std::string untrained_reason = {};        // why the row has no trained tokens, where the strategy knows it
  std::int64_t most_after = 0;              // tokens after the first segment, which are cut; 0: any number
  DocumentRole role = DocumentRole::alone;  // of a pair: chosen, then rejected, both from one record
};

/// A list of one, without the copy that a braced list makes.
inline std::vector<Rendered> single(Rendered&& one) {
  std::vector<Rendered> out;
  out.push_back(std::move(one));
  return out;
}

class PromptStrategy {
 public:
  virtual ~PromptStrategy() = default;
  /// One record → examples (usually one). UserError on a record it cannot read, naming the field; the caller adds the
  /// file and line. Safe to call from many threads.
  virtual std::vector<Rendered> render(const Json& record) const = 0;
  /// Sets `out` to that. A strategy for many short rows writes over what `out` held and so takes no memory of its own.
  virtual void render_into(std::vector<Rendered>& out, const Json& record) const { out = render(record); }
  /// The text up to the point where the model speaks, for inference: same template as in training.
  virtual Rendered prompt(const Json& record) const = 0;
  /// Everything that decides what render() gives, for the cache key.
  virtual std::string fingerprint() const = 0;
  /// The inputs of fingerprint() by the names of their keys, so that a message can name what changed.
  virtual std::vector<std::pair<std::string, std::string>> inputs() const { return {{"type", fingerprint()}}; }
  /// A line for the header: which format, template and mask.
  virtual std::string description() const = 0;
};

/// The arguments of a strategy's factory; they need not outlive its call.
struct PromptContext {
  const DatasetEntry* dataset = nullptr;  // type, fields, roles, template of this dataset
  RowKind rows = {};                      // what a row is: a text, a pair of answers, an answer with a label
  bool train_on_inputs = false;
  std::string tokenizer_template;  // default template of the model directory
  std::vector<std::pair<std::string, std::string>> named_templates;
  std::string bos_token, eos_token, pad_token, unk_token;
  std::string chat_template, chat_template_jinja;  // the recipe's global choice
  Json chat_template_kwargs = Json::object();
  std::vector<std::string> eot_tokens;
  std::string default_system_message;  // for conversations without one
};

using PromptFactory = std::function<std::unique_ptr<PromptStrategy>(const PromptContext&)>;
/// alpaca, completion, chat_template, … with Axolotl's spellings ("alpaca:chat", "alpaca_chat.load_qa" …).
Registry<PromptFactory>& prompt_strategies();

/// UserError when the type is a name that no row of the table has, with the nearest one.
void check_prompt_type(const DatasetType& type, RowKind rows);
/// The strategy for context.dataset->type: a row of the table, the user's own format, or pre-tokenised rows.
std::unique_ptr<PromptStrategy> make_prompt_strategy(const PromptContext& context);

}  // namespace dml
