// A judge of answers: a check for `evals`. An answer passes when it has at most `words` words; its score is the share
// of the allowance that it left.
#include <dml/plugin.h>

#include <algorithm>
#include <sstream>

namespace {

using namespace dml::plugin;

class Brevity : public AnswerCheck {
 public:
  explicit Brevity(const Json& arguments) : words_(arguments["words"]) {
    if (words_ < 1) throw std::runtime_error("words must be at least 1");
  }
  Verdict check(const Answer& answer, const Json&) override {
    std::istringstream text(answer.output);
    double count = 0;
    for (std::string word; text >> word;) ++count;
    return {.pass = count <= words_,
            .score = std::max(0.0, 1 - count / words_),
            .critique = count <= words_ ? "" : std::to_string(static_cast<int>(count)) + " words"};
  }

 private:
  double words_;
};

}  // namespace

DML_PLUGIN("brevity", "1.0") {
  registry.add(Row<AnswerCheck>{"brevity",
                                "the answer has at most so many words",
                                [](const Json& arguments) { return std::make_unique<Brevity>(arguments); },
                                {{"words", "the most words", 20}}});
}
