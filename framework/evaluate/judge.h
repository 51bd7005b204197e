// A judge: a program that is started once and reads one JSON line per answer:
//   {"prompt": …, "reference": …, "output": …, "row": {…}}
// and writes one line back: {"pass": true, "score": 0.8, "critique": "…"}. score and critique are optional; without
// `pass`, a score of at least 0.5 passes.
//
// A judge fails at a row if it exits, does not answer in time, or writes anything else or without end. The row then
// does not count and the program is restarted; after a few failures it is not used any more. A failing judge never ends
// the run.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "evaluate/checks.h"

namespace dml {

class Judge {
 public:
  /// `command`: a program and its arguments, started by the first ask(). `written`: the command as messages name it.
  /// `timeout`: seconds for an answer.
  Judge(std::vector<std::string> command, std::string written, double timeout);
  ~Judge();
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  Verdict ask(const Json& question);
  /// One line per kind of failure.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  bool start();
  void stop();
  bool write_line(const std::string& line, Clock::time_point deadline);
  /// Reads available output without waiting.
  void read_ahead();
  /// Reads the next line; false with `why` if there is none.
  bool read_line(std::string& line, Clock::time_point deadline, std::string& why);
  Verdict failed(const std::string& why);

  std::vector<std::string> command_;
  std::string written_;
  double timeout_;
  int process_ = -1, to_ = -1, from_ = -1;
  std::string held_;
  int failures_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace dml
