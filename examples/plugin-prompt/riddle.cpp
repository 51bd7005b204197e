// A prompt format: riddles. A row {"clues": [text, …], "answer": text} becomes
//
//   What am I?
//   - CLUE
//   - CLUE
//   Answer: ANSWER<eos>
//
// of which the answer and the end of text behind it are trained.
#include <dml/plugin.h>

#include <stdexcept>

namespace {

using namespace dml::plugin;

class Riddle : public PromptFormat {
 public:
  Example example(const Json& row) const override {
    Example out = prompt(row);
    if (!row.contains("answer") || !row["answer"].is_string()) throw std::runtime_error("a riddle needs an 'answer'");
    out.pieces.push_back({row["answer"].get<std::string>(), /*trained=*/true});
    return out;
  }
  Example prompt(const Json& row) const override {
    if (!row.contains("clues") || !row["clues"].is_array())
      throw std::runtime_error("a riddle needs a list of 'clues'");
    std::string text = "What am I?\n";
    for (const Json& clue : row["clues"])
      text += "- " + (clue.is_string() ? clue.get<std::string>() : clue.dump()) + "\n";
    return {{{text + "Answer: "}}};
  }
  std::string fingerprint() const override { return "1"; }  // another number when the text changes
  std::string description() const override { return "the answer is trained"; }
};

}  // namespace

DML_PLUGIN("riddles", "1.0") {
  registry.add(
      Row<PromptFormat>{"riddle", "clues and their answer", [](const Json&) { return std::make_unique<Riddle>(); }});
}
