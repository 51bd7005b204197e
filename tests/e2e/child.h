// Child processes: the built program as a user runs it, alone or under mpirun, with its output, exit status and peak
// memory.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace dml::e2e {

using Words = std::vector<std::string>;

/// Memory use under a sanitizer is meaningless.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// A timeout that only a hang reaches, even on a slow, busy machine.
inline constexpr double kPatience = 600;

struct Ended {
  int exit = -1;         // exit status; 128 + N when signal N ended it
  std::string out, err;  // stdout, stderr
  double seconds = 0;
  std::size_t peak = 0;  // highest resident memory, bytes; never less than this process has when it starts the child
  bool timed_out = false;
  bool locked_up = false;  // mpirun, after its last rank had gone: its exit status says nothing
};

struct Surroundings {
  Words environment = {};      // "NAME=VALUE", on top of this process's
  std::string folder = {};     // working directory; "" keeps this one
  std::string input = {};      // stdin
  long file_limit = -1;        // RLIMIT_FSIZE, bytes; writing past it fails
  double timeout = kPatience;  // then the whole process group is killed
};

/// In a child process: default signal handlers, whatever nohup or a background job ignores.
void reset_signals();

/// A process that runs beside the test. The destructor kills what is left of its process group.
class Child {
 public:
  explicit Child(const Words& words, const Surroundings& around = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Whether its stderr contains `text`.
  bool has_said(const std::string& text) const;
  /// `job`: text in the ranks' command lines. When a rank has died, mpirun (Open MPI 4.1.4) may deadlock in
  /// pmix_rte_finalize; it is killed half a minute after its last rank.
  Ended wait(const std::string& job = {});

 private:
  Surroundings around_;
  std::string scratch_;
  pid_t pid_ = -1;
  double started_ = 0;
};

Ended run(const Words& words, const Surroundings& around = {});
/// The built program.
std::string dml_path();
Ended dml(Words words, const Surroundings& around = {});
/// `mpirun -np RANKS dml …`, or the program alone for one rank.
Words on_ranks(int ranks, Words words);
bool has_mpirun();
bool has_program(const std::string& name);
/// Processes whose command line contains `text`, zombies left out.
std::vector<pid_t> processes_with(const std::string& text);
/// Those processes that are the built program: the ranks of a job, without mpirun.
std::vector<pid_t> ranks_with(const std::string& text);

/// Polls until the condition is true; false after kPatience.
bool soon(const std::function<bool()>& reached);
/// One of ranks_with(text) that has stopped itself (DML_FAULT kind=stop), as soon as there is one; 0 when there is
/// none.
pid_t stopped_rank(const std::string& text);
/// Whether a signal has been sent to a process that is stopped.
bool has_pending(pid_t process, int signal);

}  // namespace dml::e2e
