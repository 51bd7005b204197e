#include "core/interruption.h"

#include <atomic>
#include <csignal>

#include "core/error.h"

namespace dml {
namespace {

std::atomic<int> unfinished = 0, caught = 0;
std::atomic<bool> reported = false;
static_assert(std::atomic<int>::is_always_lock_free);  // used in a signal handler

void end_by(int number) {
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void on_signal(int number) {
  if (unfinished == 0 || caught != 0) end_by(number);
  caught = number;
}

void catch_unless_handled(int number) {
  struct sigaction now {};
  if (sigaction(number, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

}  // namespace

UnfinishedOutput::UnfinishedOutput() {
  ++unfinished;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) catch_unless_handled(number);
}

UnfinishedOutput::~UnfinishedOutput() {
  if (--unfinished == 0 && caught != 0 && !reported) end_by(caught);
}

void check_interruption() {
  if (caught == 0) return;
  reported = true;
  throw Error(ExitCode::interrupted, "interrupted; unfinished output was removed");
}

}  // namespace dml
