// Plain text: every token is trained. A document longer than sequence_len continues in the next example
// (data/example.h).
#include "prompt/layout.h"
#include "prompt/strategies.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

class Completion : public PromptStrategy {
 public:
  explicit Completion(std::string column) : column_(std::move(column)) {}

  std::vector<Rendered> render(const Json& record) const override {
    Segment segment = text_segment(record, column_);
    segment.end_of_text = segment.end_trained = true;
    Rendered out{{std::move(segment)}, {}, {}};
    out.chunk = true;
    return single(std::move(out));
  }
  Rendered prompt(const Json& record) const override {
    bool given = !record.contains(column_) && record.contains("prompt");
    return {{text_segment(record, given ? "prompt" : column_)}, {}, {}};
  }
  std::string fingerprint() const override { return "completion 1|" + column_; }
  std::string description() const override { return fmt::format("completion: trains on all of '{}'", column_); }

 private:
  static Segment text_segment(const Json& record, const std::string& column) {
    Segment segment;
    segment.add_trained(text_column(record, column));
    segment.add_special = true;
    return segment;
  }
  std::string column_;
};

}  // namespace

std::unique_ptr<PromptStrategy> make_completion(const PromptContext& context) {
  std::string column = "text";
  if (auto* dataset = context.dataset)
    column = dataset->field ? *dataset->field : dataset->text_column.value_or("text");
  return std::make_unique<Completion>(column);
}

}  // namespace dml
