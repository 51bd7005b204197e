#include "cli/chat.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>

#include "cli/line_editor.h"
#include "cli/output.h"
#include "core/appended_file.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/log.h"
#include "core/sampling_limits.h"
#include "pipeline/infer.h"

namespace dml {
namespace {

constexpr const char* kChatHelp =
    "/help            this list\n"
    "/retry           answer the last question again\n"
    "/undo            remove the last question and its answer\n"
    "/new             start a new conversation\n"
    "/system TEXT     set the system message and start a new conversation; without TEXT: none\n"
    "/set KEY VALUE   change a setting of generation; /set lists them\n"
    "/save FILE       append the conversation to FILE, as a row of a chat dataset\n"
    "/exit            leave; so does Ctrl-D\n"
    "A line that ends with \\ continues on the next one. Ctrl-C ends an answer, or drops what is typed.";

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// During a conversation, SIGINT sets a flag instead of ending the process.
class CatchInterrupts {
 public:
  CatchInterrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };  // no SA_RESTART: reading a line is interrupted, too
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  ~CatchInterrupts() { sigaction(SIGINT, &before_, nullptr); }
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

 private:
  struct sigaction before_ {};
};

struct Setting {
  const char* key;
  SamplingLimit limit;
  bool whole;
  double (*get)(const GenerationOptions&);
  void (*set)(GenerationOptions&, double);
  bool samples = false;  // asks for sampling, so it ends greedy
};

const std::vector<Setting>& settings() {
  using G = GenerationOptions;
  using Limits = SamplingLimits;
  static const std::vector<Setting> table{
      {"temperature", Limits::kTemperature, false, [](const G& o) { return o.sampling.temperature; },
       [](G& o, double x) { o.sampling.temperature = x; }, true},
      {"top-k", Limits::kTopK, true, [](const G& o) { return static_cast<double>(o.sampling.top_k); },
       [](G& o, double x) { o.sampling.top_k = static_cast<std::int64_t>(x); }, true},
      {"top-p", Limits::kTopP, false, [](const G& o) { return o.sampling.top_p; },
       [](G& o, double x) { o.sampling.top_p = x; }, true},
      {"min-p", Limits::kMinP, false, [](const G& o) { return o.sampling.min_p; },
       [](G& o, double x) { o.sampling.min_p = x; }, true},
      {"repetition-penalty", Limits::kRepetitionPenalty, false,
       [](const G& o) { return o.sampling.repetition_penalty; },
       [](G& o, double x) { o.sampling.repetition_penalty = x; }},
      {"presence-penalty", Limits::kPenalty, false, [](const G& o) { return o.sampling.presence_penalty; },
       [](G& o, double x) { o.sampling.presence_penalty = x; }},
      {"frequency-penalty", Limits::kPenalty, false, [](const G& o) { return o.sampling.frequency_penalty; },
       [](G& o, double x) { o.sampling.frequency_penalty = x; }},
      {"greedy",
       {0, 1},
       true,
       [](const G& o) { return o.sampling.greedy ? 1.0 : 0.0; },
       [](G& o, double x) { o.sampling.greedy = x != 0; }},
      {"max-new-tokens", Limits::kNewTokens, true, [](const G& o) { return static_cast<double>(o.max_new_tokens); },
       [](G& o, double x) { o.max_new_tokens = static_cast<std::int64_t>(x); }},
      {"seed",
       {0, 1e15},
       true,
       [](const G& o) { return static_cast<double>(o.sampling.seed); },
       [](G& o, double x) { o.sampling.seed = static_cast<std::uint64_t>(x); }}};
  return table;
}

// Splits "word  the rest " into "word" and "the rest".
std::pair<std::string, std::string> cut(const std::string& line) {
  const auto space = std::min(line.find(' '), line.size()), rest = line.find_first_not_of(' ', space);
  if (rest == line.npos) return {line.substr(0, space), ""};
  return {line.substr(0, space), line.substr(rest, line.find_last_not_of(' ') + 1 - rest)};
}

class Chat {
 public:
  explicit Chat(Assistant& assistant) : assistant_(assistant) {}

  void run() {
    log_info("{}\n/help lists the commands, /exit leaves", assistant_.description());
    CatchInterrupts caught;
    while (std::optional<std::string> line = read_message()) {
      interrupted = false;
      if (line->find_first_not_of(" \t") == line->npos) continue;
      try {
        if (line->starts_with('/')) {
          if (!command(*line)) return;
        } else {
          ask(*line);
        }
      } catch (const Error& e) {
        if (e.code() != ExitCode::user && e.code() != ExitCode::io) throw;
        log_error("{}", e.what());
      }
    }
  }

 private:
  std::optional<std::string> read_message() {
    std::string message;
    for (const char* prompt = "> ";; prompt = ". ") {
      std::optional<std::string> line = editor_.read(prompt);
      if (!line) return message.empty() ? std::nullopt : std::optional(message);
      if (editor_.interrupted()) return "";  // drops the lines before, too
      if (!line->ends_with('\\')) return message + *line;
      line->pop_back();
      message += *line + "\n";
    }
  }

  // Executes a command; false to leave the chat.
  bool command(const std::string& line) {
    const auto [name, rest] = cut(line);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
      log_info("{}", kChatHelp);
    } else if (name == "/new") {
      messages_ = Json::array();
    } else if (name == "/system") {
      if (!rest.empty() && !assistant_.chats()) throw UserError("/system: this model's prompts have no system message");
      system_ = rest;
      messages_ = Json::array();
    } else if (name == "/set") {
      set(rest);
    } else if (name == "/undo") {
      if (!undo_exchange(messages_)) throw UserError("/undo: there is nothing to undo");
      log_info("removed the last question and its answer");
    } else if (name == "/retry") {
      if (messages_.empty() || messages_.back()["role"] == "system") throw UserError("/retry: nothing was asked yet");
      if (messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
      answer(++attempt_);
    } else if (name == "/save") {
      if (rest.empty()) throw UserError("/save needs a file: /save chat.jsonl");
      if (messages_.empty()) throw UserError("/save: the conversation is empty");
      AppendedFile(rest).append(dump(Json{{"messages", messages_}}) + "\n");
      log_info("appended {} messages to {}", messages_.size(), rest);
    } else {
      static const std::vector<std::string> names{"/help",   "/retry", "/undo", "/new",
                                                  "/system", "/set",   "/save", "/exit"};
      throw UserError("unknown command {}{}; /help lists them", name, did_you_mean(name, names));
    }
    return true;
  }

  void set(const std::string& words) {
    GenerationOptions& options = assistant_.generation();
    if (words.empty()) {
      log_info("{}", generation_options_text(options));
      return;
    }
    const auto [key, value] = cut(words);
    if (value.empty()) throw UserError("/set {} needs a value", key);
    set_generation_option(options, key, value);
  }

  void ask(const std::string& text) {
    if (messages_.empty() && !system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
    messages_.push_back({{"role", "user"}, {"content", text}});
    attempt_ = 0;
    answer(0);
  }

  // Answers the last message; without a chat template, only that message is the prompt.
  void answer(std::size_t attempt) {
    std::string text;
    try {
      const Json row =
          assistant_.chats() ? assistant_.row_of_messages(messages_) : Json{{"prompt", messages_.back()["content"]}};
      text = assistant_
                 .answer(
                     assistant_.prompt_ids(row),
                     [](const std::string& piece) {
                       print(piece);
                       return !interrupted;
                     },
                     attempt)
                 .text;
    } catch (const UserError&) {
      undo_exchange(messages_);
      throw;
    }
    print("\n");
    if (interrupted) log_info("(interrupted)");
    messages_.push_back({{"role", "assistant"}, {"content", text}});
  }

  Assistant& assistant_;
  LineEditor editor_;
  Json messages_ = Json::array();
  std::string system_;
  std::size_t attempt_ = 0;
};

}  // namespace

void chat(Assistant& assistant) { Chat(assistant).run(); }

void set_generation_option(GenerationOptions& options, const std::string& key, const std::string& value) {
  std::vector<std::string> keys;
  for (const Setting& s : settings()) {
    keys.emplace_back(s.key);
    if (key != s.key) continue;
    const std::string text = value == "true" ? "1" : value == "false" ? "0" : value;
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !s.limit.contains(number) ||
        (s.whole && number != static_cast<double>(static_cast<std::int64_t>(number))))
      throw UserError("/set {}: '{}' is not a {}number from {} to {}", key, value, s.whole ? "whole " : "", s.limit.low,
                      s.limit.high);
    if (s.samples && options.beams > 1)
      throw UserError("/set {}: beam search takes the likeliest texts; start the chat without --num-beams", key);
    if (s.samples) options.sampling.greedy = false;  // as on the command line
    s.set(options, number);
    return;
  }
  throw UserError("/set: unknown setting '{}'{}", key, did_you_mean(key, keys));
}

std::string generation_options_text(const GenerationOptions& options) {
  std::string out;
  for (const Setting& s : settings())
    out += fmt::format("{}{:<19} {:g}", out.empty() ? "" : "\n", s.key, s.get(options));
  return out;
}

bool undo_exchange(Json& messages) {
  while (!messages.empty() && messages.back()["role"] == "assistant") messages.erase(messages.size() - 1);
  if (messages.empty() || messages.back()["role"] != "user") return false;
  messages.erase(messages.size() - 1);
  return true;
}

}  // namespace dml
