// SIGINT, SIGTERM and SIGHUP while output is unfinished: its temporary files are removed before the process ends.
#pragma once

namespace dml {

/// Stands for output under a temporary name. While one exists, the first SIGINT, SIGTERM or SIGHUP does not end the
/// process; the next check_interruption() throws instead, so that destructors remove what is half-written. A second
/// signal ends the process at once. Signals that the program ignores or handles otherwise (train/signals.h) stay as
/// they are. If nobody has checked by the time the last one is destroyed, the process ends then, as by the signal.
class UnfinishedOutput {
 public:
  UnfinishedOutput();
  ~UnfinishedOutput();
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;
};

/// Throws Error (ExitCode::interrupted) after a signal that arrived while output was unfinished; otherwise does
/// nothing. Writers call it with every write. A loop that may run while output is open and computes for long between
/// two writes (tokens, micro-batches, blocks of rows) calls it in every round.
void check_interruption();

}  // namespace dml
