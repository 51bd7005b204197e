#include "evaluate/judge.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/affinity.h"
#include "core/directory.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr int kMaxFailures = 3;
constexpr std::size_t kLongestLine = 1 << 20;

/// Waits until the descriptor is ready; false at the deadline.
bool wait_for(int descriptor, short events, Clock::time_point deadline) {
  for (;;) {
    const double left = -seconds_since(deadline);
    if (left <= 0) return false;
    pollfd p{descriptor, events, 0};
    const int ready = poll(&p, 1, static_cast<int>(std::min(left * 1000 + 1, 60000.0)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

class JudgeCheck : public AnswerCheck {
 public:
  JudgeCheck(std::string name, std::vector<std::string> command, std::string written, double timeout)
      : name_(std::move(name)), judge_(std::move(command), std::move(written), timeout) {}
  Verdict decide(const EvalAnswer& answer, const Json& row) override {
    return judge_.ask(
        {{"prompt", answer.prompt}, {"reference", answer.reference}, {"output", answer.output}, {"row", row}});
  }
  std::string name() const override { return name_; }
  bool gives_score() const override { return true; }
  std::vector<std::string> problems() const override { return judge_.problems(); }

 private:
  std::string name_;
  Judge judge_;
};

}  // namespace

std::unique_ptr<AnswerCheck> make_judge_check(const CheckRequest& r) {
  std::vector<std::string> command;
  std::string written;
  if (r.value.is_string() && !r.value.get<std::string>().empty()) {
    written = r.value.get<std::string>();
    const std::string program = written.substr(0, written.find_first_of(" \t"));
    if (written.find_first_of("|&;<>()$`'\"") == written.npos && !can_run(program))
      throw UserError("check 'command': program '{}' was not found or is not executable", program);
    command = {"/bin/sh", "-c", "exec " + written};
  } else if (r.value.is_array() && !r.value.empty()) {
    for (const Json& word : r.value) {
      if (!word.is_string()) throw UserError("check 'command': words must be strings, got {}", dump(word));
      command.push_back(word.get<std::string>());
    }
    written = fmt::format("{}", fmt::join(command, " "));
    if (!can_run(command[0]))
      throw UserError("check 'command': program '{}' was not found or is not executable", command[0]);
  } else {
    throw UserError("check 'command' takes a command or a list of words, got {}", dump(r.value));
  }
  const double timeout = json_number(r.options, "timeout", 60, "check 'command'");
  if (!(timeout > 0 && timeout <= 86400))
    throw UserError("check 'command': timeout must be in (0, 86400] seconds, is {}", timeout);
  return std::make_unique<JudgeCheck>(json_string(r.options, "name", kProgramCheck, "check 'command'"),
                                      std::move(command), std::move(written), timeout);
}

Judge::Judge(std::vector<std::string> command, std::string written, double timeout)
    : command_(std::move(command)), written_(std::move(written)), timeout_(timeout) {}

Judge::~Judge() { stop(); }

bool Judge::start() {
  int input[2], output[2];
  // A socket pair, so that writing to a judge that has exited returns an error whatever SIGPIPE does.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) != 0) return false;
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(input[0]), close(input[1]);
    return false;
  }
  std::vector<char*> words;
  for (std::string& w : command_) words.push_back(w.data());
  words.push_back(nullptr);
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    unbind_this_thread();
    dup2(input[1], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    execvp(words[0], words.data());
    _exit(127);
  }
  close(input[1]);
  close(output[1]);
  to_ = input[0], from_ = output[0];
  if (process_ < 0) {
    stop();
    return false;
  }
  for (int d : {to_, from_}) fcntl(d, F_SETFL, fcntl(d, F_GETFL) | O_NONBLOCK);
  held_.clear();
  return true;
}

// Closes its input and gives it a moment to exit.
void Judge::stop() {
  for (int* d : {&to_, &from_})
    if (*d >= 0) close(*d), *d = -1;
  if (process_ <= 0) return;
  int status = 0;
  for (int i = 0; i < 20 && waitpid(process_, &status, WNOHANG) == 0; ++i) {
    if (i == 10) kill(-process_, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (kill(-process_, SIGKILL) == 0 || errno == ESRCH) waitpid(process_, &status, 0);
  process_ = -1;
}

bool Judge::write_line(const std::string& line, Clock::time_point deadline) {
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = send(to_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<std::size_t>(n);
    else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(to_, POLLOUT, deadline)) return false;
    } else return false;
  }
  return true;
}

bool Judge::read_line(std::string& line, Clock::time_point deadline, std::string& why) {
  std::array<char, 65536> piece;
  for (;;) {
    if (const auto end = held_.find('\n'); end != held_.npos) {
      line = held_.substr(0, end);
      held_.erase(0, end + 1);
      return true;
    }
    if (held_.size() > kLongestLine) return why = "wrote a line of more than a megabyte", false;
    if (!wait_for(from_, POLLIN, deadline)) return why = fmt::format("did not answer within {:g} s", timeout_), false;
    const ssize_t n = read(from_, piece.data(), piece.size());
    if (n > 0) held_.append(piece.data(), static_cast<std::size_t>(n));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) return why = "ended before it answered", false;
  }
}

void Judge::read_ahead() {
  std::array<char, 4096> piece;
  if (const ssize_t n = read(from_, piece.data(), piece.size()); n > 0)
    held_.append(piece.data(), static_cast<std::size_t>(n));
}

Verdict Judge::failed(const std::string& why) {
  stop();
  ++failures_;
  const std::string line =
      fmt::format("judge '{}' {}{}", written_, why, failures_ == kMaxFailures ? "; it is no longer used" : "");
  if (std::ranges::find(problems_, line) == problems_.end()) problems_.push_back(line);
  return {.counts = false};
}

Verdict Judge::ask(const Json& question) {
  if (failures_ >= kMaxFailures) return {.counts = false};
  if (process_ <= 0 && !start()) return failed("could not be started");
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_));
  std::string line, why;
  read_ahead();
  if (!held_.empty()) return failed("wrote more than one line for an answer");
  if (!write_line(dump(question) + "\n", deadline)) return failed("does not read its input");
  if (!read_line(line, deadline, why)) return failed(why);
  Json answer;
  try {
    answer = parse_json(line, "judge");
  } catch (const UserError&) {
    return failed("wrote a line that is not JSON");
  }
  const bool has_pass = answer.is_object() && answer.contains("pass") && answer["pass"].is_boolean(),
             has_score = answer.is_object() && answer.contains("score") && answer["score"].is_number();
  if (!has_pass && !has_score) return failed("wrote a line without 'pass' or 'score'");
  Verdict verdict;
  if (has_score) verdict.score = answer["score"].get<double>();
  verdict.pass = has_pass ? answer["pass"].get<bool>() : *verdict.score >= 0.5;
  if (answer.contains("critique") && answer["critique"].is_string())
    verdict.critique = answer["critique"].get<std::string>();
  return verdict;
}

}  // namespace dml
