// Bits per byte: the cross-entropy of the validation split's trained tokens in bits, divided by the bytes of UTF-8 that
// they spell. Unlike the loss per token it compares models with different tokenizers (Gao et al. 2020, arXiv
// 2101.00027). Special tokens (end of text, of a turn) count in the cross-entropy and have no bytes.
#include <algorithm>
#include <numbers>

#include "assembly/eval_metrics.h"
#include "assembly/objective_choice.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr const char* kName = "eval_bits_per_byte";

class BitsPerByte : public Evaluator {
 public:
  BitsPerByte(double tokens_per_byte, bool on_start) : tokens_per_byte_(tokens_per_byte), on_start_(on_start) {}

  std::vector<Metric> metrics() const override { return {{kName}}; }
  bool due(const EvaluationMoment& moment) const override { return moment.step == 0 ? on_start_ : moment.scheduled; }
  void evaluate(const EvaluationContext& /*context*/, EvaluationResult& result) override {
    const auto loss = std::ranges::find(result.values, kEvalLoss, &NamedValue::name);
    DML_CHECK(loss != result.values.end());
    const double bits = loss->value / std::numbers::ln2;  // per token
    result.values.push_back({kName, bits * tokens_per_byte_});
  }

 private:
  double tokens_per_byte_;
  bool on_start_;
};

// Trained tokens ÷ bytes of text. The first token of an example is never predicted. The space that SentencePiece puts
// in front of a text is not part of it.
double tokens_per_byte(const Examples& examples, const Tokenizer& tokenizer) {
  double tokens = 0, bytes = 0;
  for (std::int64_t i = 0; i < examples.size(); ++i) {
    const std::span<const Token> labels = examples.labels(i);
    for (std::size_t t = 1; t < labels.size(); ++t) {
      if (labels[t] == kIgnore) continue;
      tokens += 1;
      if (tokenizer.is_special(labels[t])) continue;
      const bool first = labels[t - 1] == kIgnore || tokenizer.is_special(labels[t - 1]);
      bytes += static_cast<double>(tokenizer.text_bytes(labels[t], first).size());
    }
  }
  if (bytes == 0) throw UserError("eval_metrics: bits_per_byte: no trained token of the validation split has text");
  return tokens / bytes;
}

void check_recipe(const Recipe& recipe) {
  if (!has_token_loss(recipe))
    throw UserError("eval_metrics: bits_per_byte needs the cross-entropy of tokens; this run has another loss");
  const DataSection& data = recipe.data;
  for (const DatasetEntry& e : data.test_datasets.empty() ? data.datasets : data.test_datasets)
    if (e.field_weight || e.message_field_weight)
      throw UserError(
          "eval_metrics: bits_per_byte does not work with weights of rows or messages in the validation data");
}

std::unique_ptr<Evaluator> make_bits_per_byte(const EvaluatorParts& from) {
  check_recipe(from.recipe);
  return std::make_unique<BitsPerByte>(tokens_per_byte(from.prepared.validation(), from.tokenizer),
                                       from.recipe.train.eval_on_start);
}

}  // namespace

EvalMetricRows bits_per_byte_rows() {
  return {{"bits_per_byte",
           "cross-entropy in bits per byte of trained text: comparable between models with different tokenizers",
           {check_recipe, make_bits_per_byte}}};
}

}  // namespace dml
