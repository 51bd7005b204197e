// Signals as wishes: handlers only set flags, the training loop looks at them between steps and all ranks agree on what to
// do. USR1: checkpoint and go on. USR2, TERM, INT: checkpoint and stop. A second INT ends the process at once.
#pragma once

namespace dml {

enum class Wish { none, save, stop };

/// Installs the handlers; gives back the old ones when it goes.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// What was asked for since the last call; `stop` stays.
  Wish take();
};

}  // namespace dml
