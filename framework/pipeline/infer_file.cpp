// dml infer --input: answers the rows of a file.
#include <functional>

#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"
#include "pipeline/best_of.h"
#include "pipeline/infer.h"
#include "pipeline/kept_rows.h"

namespace dml {
namespace {

constexpr std::size_t kWaiting = 256;  // rows that are given to the assistant together
constexpr std::size_t kMaxRowErrors = 20;
constexpr const char *kAnswerKey = "output", *kRewardKey = "reward", *kLogprobsKey = "logprobs";

// Calls use(row, ids) for every row until it returns false. UserError with the places of all rows without a prompt.
void each_prompt(const Assistant& assistant, const std::string& input, const std::string& text,
                 const std::function<bool(Json, std::vector<Token>)>& use) {
  Problems problems;
  for (const Line line : Lines(text)) {
    if (problems.all().size() == kMaxRowErrors) break;
    if (line.blank()) continue;
    const std::string place = fmt::format("{}:{}", input, line.number);
    Json row;
    std::vector<Token> ids;
    std::string where;
    try {
      row = parse_json(line.text, place);
      where = place + ": ";
      if (!row.is_object()) throw UserError(std::string("a row must be an object like {\"prompt\": \"…\"}"));
      ids = assistant.prompt_ids(row);
    } catch (const UserError& e) {
      problems.add(where + e.what());
      continue;
    }
    if (!use(std::move(row), std::move(ids))) return;
  }
  problems.raise();
}

// The rows that are answered together, and those of them that were written.
class Group {
 public:
  Group(Assistant& assistant, const AnsweredFile& file, KeptRows& out)
      : assistant_(assistant), file_(file), out_(out), answered_(out.first_to_compute()) {}

  std::size_t size() const { return rows_.size(); }
  void add(Json row, std::vector<Token> ids) {
    rows_.push_back(std::move(row));
    prompts_.push_back(std::move(ids));
  }

  void answer() {
    lines_.assign(size(), "");
    written_ = 0;
    const auto take = [&](std::size_t i, const Answer& answer) { write(i, answer); };
    if (!file_.best) assistant_.answers(prompts_, answered_, take);
    for (std::size_t i = 0; file_.best && i < size(); ++i)
      take(i, file_.best->answers({&rows_[i], 1}, {&prompts_[i], 1}, answered_ + i)[0]);
    answered_ += size();
    rows_.clear();
    prompts_.clear();
  }

 private:
  // An answer waits until those of the rows before it are there.
  void write(std::size_t i, const Answer& answer) {
    Json& row = rows_[i];
    row[kAnswerKey] = answer.text;
    if (answer.reward) row[kRewardKey] = *answer.reward;
    if (file_.logprobs) row[kLogprobsKey] = assistant_.logprobs(answer);
    lines_[i] = dump(row);
    for (; written_ < size() && !lines_[written_].empty(); ++written_) out_.put(answered_ + written_, lines_[written_]);
  }

  Assistant& assistant_;
  const AnsweredFile& file_;
  KeptRows& out_;
  std::size_t answered_, written_ = 0;  // rows of the file before this group; of this group
  std::vector<Json> rows_;
  std::vector<std::vector<Token>> prompts_;
  std::vector<std::string> lines_;
};

// UserError unless a row of an earlier run is the answer to this row.
void require_answer_to(Json row, const KeptRows& out, std::size_t number) {
  Json answered = parse_json(out.earlier()[number], out.place(number));
  bool fits = answered.is_object() && answered.contains(kAnswerKey);
  for (const char* key : {kAnswerKey, kRewardKey, kLogprobsKey}) {
    row.erase(key);
    if (fits) answered.erase(key);
  }
  if (!fits || answered != row) out.refuse(number);
}

}  // namespace

void answer_file(Assistant& assistant, const AnsweredFile& file) {
  const std::string text = read_file(file.input);
  KeptRows out(file.output, file.resume);
  // All rows are read before the first is answered, so that an error in the last line costs no work.
  std::size_t total = 0;
  each_prompt(assistant, file.input, text, [&](Json row, const std::vector<Token>&) {
    if (total < out.earlier().size()) require_answer_to(std::move(row), out, total);
    return ++total > 0;
  });
  out.require_at_most(total);
  out.fill(total, [&] {
    Group group(assistant, file, out);
    std::size_t number = 0;
    each_prompt(assistant, file.input, text, [&](Json row, std::vector<Token> ids) {
      if (number++ >= out.first_to_compute()) group.add(std::move(row), std::move(ids));
      if (group.size() == kWaiting) group.answer();
      return true;
    });
    group.answer();
  });
}

}  // namespace dml
