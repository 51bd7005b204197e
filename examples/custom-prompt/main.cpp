// A prompt format of your own: riddles. A row {"clues": [text, …], "answer": text} becomes
//
//   What am I?
//   - CLUE
//   - CLUE
//   Answer: ANSWER<eos>
//
// of which the answer and the end of text behind it are learned.
#include <memory>
#include <string>
#include <vector>

#include "assembly/recipe_names.h"
#include "core/error.h"
#include "core/log.h"
#include "pipeline/train.h"
#include "prompt/strategy.h"

namespace {

class Riddle : public dml::PromptStrategy {
 public:
  std::vector<dml::Rendered> render(const dml::Json& record) const override {
    dml::Segment segment = question(record);
    segment.add(dml::json_string(record, "answer", "", "a riddle"), /*learn=*/true, /*markup=*/false);
    segment.end_of_text = segment.learn_end = true;
    return {{{segment}}};
  }
  dml::Rendered prompt(const dml::Json& record) const override { return {{question(record)}}; }
  std::string fingerprint() const override { return "riddle 1"; }  // another number when the text changes
  std::string description() const override { return "riddle: the answer is learned"; }

 private:
  static dml::Segment question(const dml::Json& record) {
    if (!record.contains("clues") || !record["clues"].is_array())
      throw dml::UserError("a riddle needs a list of 'clues'");
    std::string text = "What am I?\n";
    for (const dml::Json& clue : record["clues"])
      text += "- " + (clue.is_string() ? clue.get<std::string>() : clue.dump()) + "\n";
    dml::Segment segment;
    segment.add(text + "Answer: ", /*learn=*/false, /*markup=*/false);
    segment.add_special = true;  // the tokenizer's own beginning of text
    return segment;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) throw dml::UserError("usage: train_riddles RECIPE [--KEY VALUE …]");
  dml::prompt_strategies().add(
      {"riddle", "clues and their answer", [](const dml::PromptContext&) { return std::make_unique<Riddle>(); }});
  dml::name_choices();
  auto ranks = dml::make_comm();  // one, or as many as mpirun has started
  dml::set_log_rank(ranks->rank());
  auto recipe = dml::load_recipe(words[0], dml::parse_overrides({words.begin() + 1, words.end()}));
  return static_cast<int>(dml::train(recipe, *ranks));
} catch (const dml::Error& e) {
  dml::log_error("{}", e.what());
  return static_cast<int>(e.code());
}
