#include "pipeline/signals.h"

#include <unistd.h>
#include <csignal>

#include <array>
#include <utility>

#include "core/error.h"

namespace dml {
namespace {

volatile std::sig_atomic_t save_wanted = 0, stop_wanted = 0;

void on_signal(int number) {
  if (number == SIGUSR1) {
    save_wanted = 1;
    return;
  }
  if (number == SIGINT && stop_wanted) _exit(static_cast<int>(ExitCode::interrupted));
  stop_wanted = 1;
}

constexpr std::array kSignals{SIGUSR1, SIGUSR2, SIGTERM, SIGINT};
std::array<struct sigaction, kSignals.size()> before;

}  // namespace

SignalWatch::SignalWatch() {
  save_wanted = 0;
  stop_wanted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

SignalWatch::~SignalWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

Wish SignalWatch::take() {
  if (stop_wanted) return Wish::stop;
  if (!save_wanted) return Wish::none;
  save_wanted = 0;
  return Wish::save;
}

}  // namespace dml
