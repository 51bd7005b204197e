#include "train/signals.h"

#include <unistd.h>
#include <csignal>

#include <array>

#include "core/error.h"

namespace dml {
namespace {

volatile std::sig_atomic_t save_requested = 0, stop_requested = 0;

void on_signal(int number) {
  if (number == SIGUSR1) {
    save_requested = 1;
    return;
  }
  if (number == SIGINT && stop_requested) _exit(static_cast<int>(ExitCode::interrupted));
  stop_requested = 1;
}

constexpr std::array kSignals{SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP};
std::array<struct sigaction, kSignals.size()> before;

}  // namespace

SignalWatch::SignalWatch() {
  save_requested = 0;
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &before[i]);
    if (kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &before[i], nullptr);  // nohup
  }
}

SignalWatch::~SignalWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

bool SignalWatch::stopping() const { return stop_requested != 0; }

SignalRequest SignalWatch::take() {
  if (stop_requested) return SignalRequest::stop;
  if (!save_requested) return SignalRequest::none;
  save_requested = 0;
  return SignalRequest::save;
}

}  // namespace dml
