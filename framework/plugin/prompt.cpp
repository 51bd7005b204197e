// Prompt formats of plug-ins: their pieces become segments.
#include "plugin/adapters.h"
#include "prompt/strategy.h"

namespace dml {
namespace {

Segment segment_of(const plugin::Example& example) {
  Segment out;
  for (const plugin::Piece& p : example.pieces) out.add(p.text, p.trained, p.markup);
  out.add_special = example.begin;
  return out;
}

// An error of a format in a dataset concerns the row; the reader adds file and line.
template <class Call>
auto of_row(Call&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw UserError(one_line(error.what()));
  } catch (...) {
    throw UserError("the format threw an exception that is not a std::exception");
  }
}

class PluginPrompt : public PromptStrategy {
 public:
  PluginPrompt(Origin origin, std::unique_ptr<plugin::PromptFormat> format)
      : origin_(std::move(origin)), format_(std::move(format)) {}

  std::vector<Rendered> render(const Json& record) const override {
    const plugin::Example example = of_row([&] { return format_->example(record); });
    Segment segment = segment_of(example);
    segment.end_of_text = example.end;
    segment.end_trained = example.end && example.end_trained;
    Rendered out;
    out.segments.push_back(std::move(segment));
    return single(std::move(out));
  }
  Rendered prompt(const Json& record) const override {
    Rendered out;
    out.segments.push_back(segment_of(guarded(origin_, [&] { return format_->prompt(record); })));
    return out;
  }
  std::string fingerprint() const override {
    return fmt::format("{} {}: {}", origin_.plugin, origin_.row,
                       guarded(origin_, [&] { return format_->fingerprint(); }));
  }
  std::string description() const override {
    const std::string own = guarded(origin_, [&] { return format_->description(); });
    return fmt::format("{} of plug-in {}{}{}", origin_.row, origin_.plugin, own.empty() ? "" : ": ", own);
  }

 private:
  Origin origin_;
  std::unique_ptr<plugin::PromptFormat> format_;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::PromptFormat> row) {
  auto make = [origin, row](const PromptContext& context) -> std::unique_ptr<PromptStrategy> {
    Json arguments = checked_arguments(row.arguments, Json::object(), "datasets.type");
    arguments["train_on_inputs"] = context.train_on_inputs;
    arguments["default_system_message"] = context.default_system_message;
    arguments["bos_token"] = context.bos_token;
    arguments["eos_token"] = context.eos_token;
    return std::make_unique<PluginPrompt>(origin, make_of(origin, row, arguments));
  };
  add_names(prompt_strategies(), row, make);
}

}  // namespace dml
