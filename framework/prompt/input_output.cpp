// Rows without a template: segments of text, each trained or not. Axolotl's input_output.
#include "core/shown.h"
#include "prompt/layout.h"
#include "prompt/strategies.h"

namespace dml {
namespace {

class InputOutput : public PromptStrategy {
 public:
  explicit InputOutput(bool train_on_inputs) : train_on_inputs_(train_on_inputs) {}

  std::vector<Rendered> render(const Json& record) const override { return single(rendered(record, false)); }

  Rendered prompt(const Json& record) const override {
    if (record.contains("segments")) return rendered(record, true);
    Segment segment;
    segment.add_markup(text_column(record, "prompt"));
    return {{std::move(segment)}, {}, {}};
  }
  void add_answer(Rendered& prompt, std::string_view answer) const override {
    prompt.segments.emplace_back().add_markup(answer);
  }
  std::string fingerprint() const override { return fmt::format("input_output 1|{}", train_on_inputs_); }
  std::string description() const override {
    return train_on_inputs_ ? "input_output: trains on all segments"
                            : "input_output: trains on segments with label: true";
  }

 private:
  // Renders the segments; for a prompt, those before the last trained one.
  Rendered rendered(const Json& record, bool prompt) const {
    Rendered out;
    const Json& segments = list_column(record, "segments");
    std::size_t end = segments.size();
    if (prompt)
      while (end > 0 && !label(segments[end - 1])) --end;
    if (prompt && end > 0) --end;
    for (std::size_t i = 0; i < end; ++i) {
      Segment segment;
      segment.add(text_column(segments[i], "text"), label(segments[i]) || train_on_inputs_, true);
      out.segments.push_back(std::move(segment));
    }
    return out;
  }
  static bool label(const Json& segment) {
    if (!segment.is_object() || !segment.contains("label") || !segment["label"].is_boolean())
      throw UserError("'segments' must be a list of objects with 'text' and 'label' (true or false), has {}",
                      shown(dump(segment), 60));
    return segment["label"].get<bool>();
  }
  bool train_on_inputs_;
};

}  // namespace

std::unique_ptr<PromptStrategy> make_input_output(const PromptContext& context) {
  return std::make_unique<InputOutput>(context.train_on_inputs);
}

}  // namespace dml
