// Two conversation formats that predate chat templates: pygmalion and llama2_chat. Turns are tokenized one by one.
#include <algorithm>
#include <utility>

#include "core/shown.h"
#include "core/text.h"
#include "prompt/layout.h"
#include "prompt/strategies.h"

namespace dml {
namespace {

struct Turn {
  std::string role, text;
};

std::vector<Turn> read_turns(const Json& record, const char* role_key, std::vector<std::string> roles) {
  const char* column =
      record.contains("conversations") || !record.contains("conversation") ? "conversations" : "conversation";
  std::vector<Turn> turns;
  for (auto& turn : list_column(record, column)) {
    if (!turn.is_object()) throw UserError("'{}' must be a list of objects, has {}", column, shown(dump(turn), 60));
    Turn read{text_column(turn, role_key), text_column(turn, "value")};
    if (std::find(roles.begin(), roles.end(), read.role) == roles.end())
      throw UserError("unknown role '{}'{}", read.role, did_you_mean(read.role, roles));
    turns.push_back(std::move(read));
  }
  return turns;
}

class Pygmalion : public PromptStrategy {
 public:
  std::vector<Rendered> render(const Json& record) const override {
    return single(rendered(read_turns(record, "role", {"system", "human", "bot"})));
  }
  Rendered prompt(const Json& record) const override {
    std::vector<Turn> turns;
    if (record.contains("prompt")) turns.push_back({"human", text_column(record, "prompt")});
    else turns = read_turns(record, "role", {"system", "human", "bot"});
    if (!turns.empty() && turns.back().role == "bot") turns.pop_back();
    Rendered out = rendered(turns);
    Segment ask;
    ask.add_markup("<|model|>");
    ask.add_special = out.segments.empty();
    out.segments.push_back(std::move(ask));
    return out;
  }
  void add_answer(Rendered& prompt, std::string_view answer) const override {
    prompt.segments.back().add_read(" " + std::string(answer));
  }
  std::string fingerprint() const override { return "pygmalion 1"; }
  std::string description() const override { return "pygmalion: trains on bot messages"; }

 private:
  static Rendered rendered(const std::vector<Turn>& turns) {
    Rendered out;
    for (auto& turn : turns) {
      Segment segment;
      bool bot = turn.role == "bot", system = turn.role == "system";
      std::string text = turn.text;
      if (system && text.ends_with("\n<START>")) text.resize(text.size() - 8);
      segment.add_markup(bot ? "<|model|>" : system ? "<|system|>" : "<|user|>");
      segment.add((system ? "Persona: " : " ") + std::string(trim(text)), bot, false);
      segment.add_special = out.segments.empty();
      segment.end_of_text = segment.end_trained = bot;
      out.segments.push_back(std::move(segment));
    }
    return out;
  }
};

// [INST] question [/INST] answer EOS, each pair beginning with BOS; the system text is inside the first question.
// Without a system turn there is none: the model's authors withdrew the default one of 2023.
class Llama2Chat : public PromptStrategy {
 public:
  explicit Llama2Chat(std::string bos) : bos_(std::move(bos)) {}

  std::vector<Rendered> render(const Json& record) const override {
    auto turns = read_turns(record, "from", {"system", "human", "gpt"});
    if (turns.empty() || turns.back().role != "gpt")
      throw UserError("the last message of a conversation must be from 'gpt'");
    return single(rendered(turns));
  }
  Rendered prompt(const Json& record) const override {
    std::vector<Turn> turns;
    if (record.contains("prompt")) turns.emplace_back(Turn{"human", text_column(record, "prompt")});
    else turns = read_turns(record, "from", {"system", "human", "gpt"});
    if (!turns.empty() && turns.back().role == "gpt") turns.pop_back();
    return rendered(turns);
  }
  void add_answer(Rendered& prompt, std::string_view answer) const override {
    prompt.segments.emplace_back().add_read(answer);
  }
  std::string fingerprint() const override { return "llama2_chat 1|" + bos_; }
  std::string description() const override { return "llama2_chat: trains on gpt messages"; }

 private:
  Rendered rendered(const std::vector<Turn>& turns) const {
    Rendered out;
    std::string system;
    std::string_view wanted = "human";
    for (auto& turn : turns) {
      if (turn.role == "system") {
        if (&turn != &turns.front()) throw UserError("a 'system' message must be the first");
        system = turn.text;
        continue;
      }
      if (turn.role != wanted)
        throw UserError("messages must alternate human, gpt, human, …; a message of '{}' is out of order", turn.role);
      Segment segment;
      if (turn.role == "human") {
        bool first = out.segments.empty();
        segment.add_special = first;
        segment.add_markup(first ? "[INST] " : bos_ + "[INST] ");
        if (!system.empty()) {
          segment.add_markup("<<SYS>>\n");
          segment.add_read(std::exchange(system, ""));
          segment.add_markup("\n<</SYS>>\n\n");
        }
        segment.add_read(turn.text);
        segment.add_markup(" [/INST]");
      } else {
        segment.add_trained(turn.text);
        segment.end_of_text = segment.end_trained = true;
      }
      out.segments.push_back(std::move(segment));
      wanted = turn.role == "human" ? "gpt" : "human";
    }
    return out;
  }
  std::string bos_;
};

}  // namespace

std::unique_ptr<PromptStrategy> make_pygmalion(const PromptContext&) { return std::make_unique<Pygmalion>(); }
std::unique_ptr<PromptStrategy> make_llama2_chat(const PromptContext& context) {
  return std::make_unique<Llama2Chat>(context.bos_token);
}

}  // namespace dml
