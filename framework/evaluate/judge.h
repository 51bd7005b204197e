// A judge: a program that is started once and reads a JSON line for every answer:
//   {"prompt": …, "reference": …, "output": …, "row": {…}}
// and writes one back: {"pass": true, "score": 0.8, "critique": "…"} – score and critique may be missing, pass follows
// from a score of at least 0.5 where it is missing.
//
// A judge that ends, does not answer in time, writes without end or writes something else has failed at that row: the
// row does not count, the program is started again, and after a few failures no more is asked of it. It never ends the
// run.
#pragma once

#include <string>
#include <vector>

#include "evaluate/checks.h"

namespace dml {

class Judge {
 public:
  /// A shell command, or a program and its arguments. Nothing is started yet.
  Judge(std::vector<std::string> command, double timeout);
  ~Judge();
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  Verdict ask(const Json& question);
  /// One line per kind of failure.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  bool start();
  void stop();
  bool write_line(const std::string& line, double deadline);
  /// The results that are ready, without waiting.
  void read_ahead();
  /// The next line; false with `why` when there is none.
  bool read_line(std::string& line, double deadline, std::string& why);
  Verdict failed(const std::string& why);

  std::vector<std::string> command_;
  double timeout_;
  int process_ = -1, to_ = -1, from_ = -1;
  std::string held_;
  int failures_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace dml
