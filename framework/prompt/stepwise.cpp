// Prompt and steps are tokenized one by one, as in TRL's PRMTrainer. The separator follows each step; its last token
// has the step's label.
#include "prompt/stepwise.h"

#include "core/error.h"
#include "core/shown.h"
#include "prompt/layout.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

constexpr const char* kType = "stepwise_supervised";

const Json& list_of(const Json& record, const char* column) {
  auto found = record.find(column);
  if (found == record.end() || !found->is_array() || found->empty())
    throw UserError("'{}' must be a list that is not empty{}", column, found == record.end() ? "; it is missing" : "");
  return *found;
}

class Stepwise : public PromptStrategy {
 public:
  explicit Stepwise(const DatasetEntry& entry)
      : separator_(entry.step_separator),
        last_(entry.train_on_last_step_only),
        most_(entry.max_completion_length.value_or(0)) {}

  std::vector<Rendered> render(const Json& record) const override {
    const Json &steps = list_of(record, "completions"), &labels = list_of(record, "labels");
    if (steps.size() != labels.size())
      throw UserError("'completions' has {} steps, 'labels' has {}", steps.size(), labels.size());
    Rendered out = prompt(record);
    out.most_after = most_;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!steps[i].is_string()) throw UserError("'completions[{}]' must be a string, is {}", i, steps[i].type_name());
      add(out, steps[i].get_ref<const std::string&>(), false);
      Segment& end = add(out, separator_, !last_ || i + 1 == steps.size());
      end.label = label(labels[i], i);
    }
    return single(std::move(out));
  }

  Rendered prompt(const Json& record) const override {
    Rendered out;
    add(out, text_column(record, "prompt"), false).add_special = true;
    return out;
  }

  std::string fingerprint() const override { return fmt::format("{} 1|{}|{}|{}", kType, separator_, last_, most_); }
  std::string description() const override {
    return fmt::format("{}: prompt, completions and labels; trains a label after {}", kType,
                       last_ ? "the last step" : "every step");
  }

 private:
  static Segment& add(Rendered& out, const std::string& text, bool trained) {
    Segment& segment = out.segments.emplace_back();
    segment.add(text, trained, false);
    return segment;
  }
  static Token label(const Json& value, std::size_t i) {
    if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
    if (value.is_number_integer() && (value == 0 || value == 1)) return value.get<Token>();
    throw UserError("'labels[{}]' must be true or false, is {}", i, shown(dump(value), 60));
  }

  std::string separator_;
  bool last_;
  std::int64_t most_;  // maximum number of tokens of the steps; 0: no limit
};

}  // namespace

void check_stepwise_type(const DatasetType& type) {
  if (type.format || (!type.name.empty() && type.name != kType))
    throw UserError("process_reward_model reads type: {}", kType).about("type");
}

std::unique_ptr<PromptStrategy> make_stepwise(const PromptContext& context) {
  check_stepwise_type(context.dataset->type);
  if (context.dataset->step_separator.empty()) throw UserError("step_separator is empty; it is where steps are judged");
  return std::make_unique<Stepwise>(*context.dataset);
}

}  // namespace dml
