// `dml infer --chat` and `dml init` at a terminal: a pseudo-terminal types and reads.
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;

// A program on a terminal of its own.
class Terminal {
 public:
  explicit Terminal(const Words& words) {
    pid_ = forkpty(&master_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      reset_signals();
      setenv("TERM", "xterm", 1);
      setenv("HOME", "/nonexistent", 1);  // no ~/.editrc
      std::vector<char*> argv;
      std::string program = dml_path();
      argv.push_back(program.data());
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
  }
  ~Terminal() {
    if (!ended_ && pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(master_);
  }
  void type(const std::string& text) { ASSERT_EQ(write(master_, text.data(), text.size()), std::ssize(text)); }
  // Reads until `text` has appeared since the last call; false after so many seconds without output.
  bool shows(const std::string& text, double patience = kPatience) {
    for (double waited = 0; waited < patience;) {
      if (auto at = screen_.find(text, seen_); at != screen_.npos) {
        seen_ = at + text.size();
        return true;
      }
      pollfd wait{master_, POLLIN, 0};
      if (poll(&wait, 1, 1000) == 0) {
        waited += 1;
        continue;
      }
      char buffer[4096];
      const ssize_t n = read(master_, buffer, sizeof buffer);
      if (n <= 0) return screen_.find(text, seen_) != screen_.npos;
      screen_.append(buffer, static_cast<std::size_t>(n));
    }
    return false;
  }
  int wait() {
    while (!shows("\x04 no such text")) {
      char byte;
      if (read(master_, &byte, 1) <= 0) break;
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& screen() const { return screen_; }

 private:
  int master_ = -1;
  pid_t pid_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
  bool ended_ = false;
};

class ChatTerminal : public Workshop {};

TEST_F(ChatTerminal, LinesCanBeEditedAndRecalled) {
  Terminal t({"infer", "--base-model", base_directory(), "--greedy", "--max-new-tokens", "3", "--chat"});
  ASSERT_TRUE(t.shows("> ")) << t.screen();
  const std::string file = at("chat.jsonl");
  t.type("Hellp\x7fo.\x01Oh! \n");  // a mistake taken back; Ctrl-A: to the beginning
  ASSERT_TRUE(t.shows("\n> ") || t.shows("\r> ")) << t.screen();
  // libedit sets raw mode after it has printed its prompt. Until then the kernel echoes what is typed and turns Ctrl-D
  // into NUL.
  t.type("/save " + file + "\n");
  ASSERT_TRUE(t.shows("appended 2 messages") && t.shows("> ")) << t.screen();
  t.type("/new\n");
  ASSERT_TRUE(t.shows("/new") && t.shows("> ")) << t.screen();
  t.type("\x1b[A\x1b[A\x1b[A\n");  // three lines up in the history
  ASSERT_TRUE(t.shows("Oh! Hello.") && t.shows("\n") && t.shows("> ")) << t.screen();
  t.type("/save " + file + "\n");
  ASSERT_TRUE(t.shows("appended 2 messages") && t.shows("> ")) << t.screen();
  t.type("/exit\n");
  EXPECT_EQ(t.wait(), 0);
  auto rows = json_lines(file);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("messages")[0].at("content"), "Oh! Hello.");
  EXPECT_EQ(rows[1].at("messages"), rows[0].at("messages"));
}

TEST_F(ChatTerminal, AnInterruptDropsAMessageOfSeveralLines) {
  Terminal t({"infer", "--base-model", base_directory(), "--greedy", "--max-new-tokens", "3", "--chat"});
  ASSERT_TRUE(t.shows("> ")) << t.screen();
  t.type("half a question\\\n");
  ASSERT_TRUE(t.shows(". ")) << t.screen();
  bool dropped = false;
  for (int i = 0; i < 20 && !dropped; ++i) t.type("\x03"), dropped = t.shows("> ", 2);
  ASSERT_TRUE(dropped) << t.screen();
  t.type("/save " + at("chat.jsonl") + "\n");
  EXPECT_TRUE(t.shows("the conversation is empty")) << t.screen();
  t.type("/exit\n");
  EXPECT_EQ(t.wait(), 0) << t.screen();
}

TEST_F(ChatTerminal, AnInterruptEndsTheAnswerAndNotTheProgram) {
  // An answer that takes far longer than anybody waits.
  const std::string folder = at("endless");
  make_directories(folder);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model", "tokenizer_config.json"})
    write_file(folder + "/" + name, read_file(base_directory() + "/" + name));
  Json config = parse_json(read_file(folder + "/config.json"), "config");
  config["max_position_embeddings"] = 200000;
  write_file(folder + "/config.json", dump(config));
  Terminal t({"infer", "--base-model", folder, "--temperature", "2", "--max-new-tokens", "190000",
              "--repetition-penalty", "1.1", "--chat"});
  ASSERT_TRUE(t.shows("> ")) << t.screen();
  t.type("half a line");
  ASSERT_TRUE(t.shows("half a line")) << t.screen();
  // A signal that arrives just before the editor waits for a key interrupts nothing: one presses Ctrl-C again.
  bool dropped = false;
  for (int i = 0; i < 20 && !dropped; ++i) t.type("\x03"), dropped = t.shows("\n", 2);
  ASSERT_TRUE(dropped) << t.screen();
  t.type("Tell me everything.\n");
  ASSERT_TRUE(t.shows("Tell me everything.")) << t.screen();
  ASSERT_TRUE(t.shows("\n")) << t.screen();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(t.shows(" ")) << t.screen();  // it is talking
  t.type("\x03");
  ASSERT_TRUE(t.shows("(interrupted)")) << t.screen();
  t.type("/exit\n");
  EXPECT_EQ(t.wait(), 0) << t.screen();
}

class InitTerminal : public Workshop {};

TEST_F(InitTerminal, AsksForModelDataAndRecipeUntilTheAnswersCanBeUsed) {
  Terminal t({"init"});
  ASSERT_TRUE(t.shows("Model ")) << t.screen();
  t.type("\n");
  ASSERT_TRUE(t.shows("Model ")) << t.screen();
  t.type(at("no-model") + "\n");
  ASSERT_TRUE(t.shows("no-model: no such file or directory") && t.shows("Model ")) << t.screen();
  t.type(base_directory() + "\n");
  ASSERT_TRUE(t.shows("Data ")) << t.screen();
  t.type(at("rowz.jsonl") + "\n");
  ASSERT_TRUE(t.shows("rowz.jsonl: no such file or directory") && t.shows("Data ")) << t.screen();
  t.type("  " + at("rows.jsonl") + " \n");
  ASSERT_TRUE(t.shows("Recipe to write: [rows.yml] ")) << t.screen();
  t.type(at("rows.jsonl") + "\n");
  ASSERT_TRUE(t.shows("exists already") && t.shows("Recipe to write: ")) << t.screen();
  t.type(at("mine.yml") + "\n");
  EXPECT_EQ(t.wait(), 0) << t.screen();
  EXPECT_THAT(t.screen(), HasSubstr("dml train " + at("mine.yml")));
  EXPECT_EQ(dml({"validate", at("mine.yml")}).exit, 0);
}

}  // namespace
}  // namespace dml::e2e
