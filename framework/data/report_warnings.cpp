// What a report warns of.
#include <algorithm>

#include "data/report_text.h"

namespace dml {
namespace {

void warn_of_ends_and_answers(const DatasetReport& d, std::vector<std::string>& out) {
  if (d.ends_expected > 0 && percent(d.ends_trained, d.ends_expected) < 95)
    out.push_back(
        fmt::format("{}: only {:.1f} % of the examples end in a trained EOS or end-of-turn token, so the model may not "
                    "learn to stop; check eos_token, eot_tokens, train_on_eos and excess_length_strategy",
                    d.name, percent(d.ends_trained, d.ends_expected)));
  // A truncated example may lack the end of one turn, for which the warning above has the advice.
  if (d.turns > 0 && percent(d.turns_ended + d.truncated, d.turns) < 95)
    out.push_back(
        fmt::format("{}: only {} of {} trained turns ({:.1f} %) end in a trained EOS or end-of-turn token, so the "
                    "model may not learn to stop; set eot_tokens: [the token that ends a turn] and train_on_eos: turn",
                    d.name, grouped(d.turns_ended), grouped(d.turns), percent(d.turns_ended, d.turns)));
  if (!d.bos.empty() && d.without_bos > 0)
    out.push_back(fmt::format(
        "{}: {} of {} {} without BOS ('{}'), which this tokenizer adds to texts; begin chat_template_jinja with "
        "{{{{ bos_token }}}}, or set chat_template: tokenizer_default if the tokenizer has a template",
        d.name, grouped(d.without_bos), examples_of(d.examples), d.without_bos == 1 ? "begins" : "begin", d.bos));
  if (const auto [less, more] = std::minmax(d.chosen_tokens, d.rejected_tokens); d.pairs > 0 && 2 * more > 3 * less)
    out.push_back(
        fmt::format("{}: {} answers are {:.1f} times as long as {} ones, so the model may learn their length instead "
                    "of what makes them better; sigmoid_norm, ipo and simpo compare means over tokens",
                    d.name, d.chosen_tokens == more ? "chosen" : "rejected",
                    mean(more, std::max<std::int64_t>(less, 1)), d.chosen_tokens == more ? "rejected" : "chosen"));
}

void warn_of_tokens_and_rows(const DatasetReport& d, std::vector<std::string>& out) {
  if (d.weight < 1 && d.used == 0 && d.examples > 0 && !d.validation)
    out.push_back(fmt::format("{}: with weight {:g}, an epoch uses none of its {}; increase the weight", d.name,
                              d.weight, examples_of(d.examples)));
  if (d.two_bos > 0)
    out.push_back(
        fmt::format("{}: {} with BOS twice at the start: the template (or the data) writes it and the tokenizer adds "
                    "it; remove it from the template or the data",
                    d.name, examples_of(d.two_bos)));
  if (percent(d.fused, d.examples) > 1)
    out.push_back(fmt::format(
        "{}: in {} of {} one token spans the end of the prompt and the start of the answer, so it is not trained; end "
        "the prompt with a special token or a line break, and start the answer without a space",
        d.name, grouped(d.fused), examples_of(d.examples)));
  if (d.trained > 0 && percent(d.trained, d.tokens) < 2)
    out.push_back(fmt::format(
        "{}: only {:.2f} % of the tokens are trained; check dml inspect --row 0, roles_to_train and train_on_inputs",
        d.name, percent(d.trained, d.tokens)));
  if (percent(d.truncated, d.examples) > 5)
    out.push_back(fmt::format("{}: {:.1f} % of the examples are truncated; raise sequence_len", d.name,
                              percent(d.truncated, d.examples)));
  std::int64_t dropped = 0;
  for (auto& [reason, count] : d.dropped) dropped += reason == dropped::kEmptyRow ? 0 : count;
  if (percent(dropped, d.rows) > 10)
    out.push_back(fmt::format("{}: {:.1f} % of the rows were dropped", d.name, percent(dropped, d.rows)));
}

// Deduplication keeps the test data and removes what it shares with the training data.
std::string leak_remedy(const DataReport& report) {
  const bool tests = std::ranges::any_of(report.datasets, &DatasetReport::validation);
  if (tests && report.all_leaked)
    return "every training example is one of them: give test_datasets other rows, or use val_set_size instead";
  return fmt::format(
      "set dataset_exact_deduplication: true to {}",
      tests ? fmt::format("remove {} from the training data", report.leaked == 1 ? "it" : "them") : "keep one of each");
}

}  // namespace

std::vector<std::string> field_warnings(const DatasetReport& d) {
  std::vector<std::string> out;
  for (auto& [role, rows] : d.left_out)
    out.push_back(
        fmt::format("{}: the chat template does not write the messages of role '{}' ({}); rename the role with "
                    "'roles', or choose a template that has it",
                    d.name, role, counted(rows, "row", "rows")));
  for (const std::string& field : d.unused_fields)
    out.push_back(fmt::format("{}: no row has the field that '{}' names", d.name, field));
  return out;
}

std::vector<std::string> DataReport::warnings() const {
  std::vector<std::string> out;
  for (auto& d : datasets) {
    for (std::string& line : field_warnings(d)) out.push_back(std::move(line));
    warn_of_ends_and_answers(d, out);
    warn_of_tokens_and_rows(d, out);
  }
  if (percent(duplicates, total(&DatasetReport::examples)) > 5)
    out.push_back(fmt::format("{}; set dataset_exact_deduplication: true to keep one of each",
                              counted(duplicates, "example is a duplicate", "examples are duplicates")));
  if (leaked > 0)
    out.push_back(fmt::format("{} also in the training data, so the validation loss will be too low; {}",
                              counted(leaked, "validation example is", "validation examples are"), leak_remedy(*this)));
  return out;
}

}  // namespace dml
