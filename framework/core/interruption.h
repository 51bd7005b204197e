// SIGINT, SIGTERM and SIGHUP while output is unfinished: its temporary files are removed before the process ends.
#pragma once

namespace dml {

/// Stands for output under a temporary name. While one exists, the first SIGINT, SIGTERM or SIGHUP does not end the
/// process; the next check() throws instead, so that destructors remove what is half-written. A second signal ends the
/// process at once. Signals that the program ignores or handles otherwise (train/signals.h) stay as they are. If nobody
/// has checked by the time the last one is destroyed, the process ends then, as by the signal.
class UnfinishedOutput {
 public:
  UnfinishedOutput();
  ~UnfinishedOutput();
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;

  /// Throws Error (ExitCode::interrupted) after a signal.
  void check() const;
};

}  // namespace dml
