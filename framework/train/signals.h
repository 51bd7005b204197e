// Signals as requests: handlers only set flags, the training loop reads them between steps, and all ranks agree on what
// to do. USR1: save a checkpoint and continue. USR2, TERM, INT, HUP: save a checkpoint and stop. A second INT ends the
// process at once. HUP stays ignored where it was (nohup).
#pragma once

namespace dml {

enum class SignalRequest { none, save, stop };

/// Installs the handlers; restores the earlier ones when destroyed.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The request since the last call; `stop` persists once it was requested.
  SignalRequest take();
  /// Whether a stop was requested.
  bool stopping() const;
};

}  // namespace dml
