// Watches the files of the base model while a run maps them: pages that were lost, and files that were changed.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/mapped_watch.h"
#include "dist/comm.h"

namespace dml {

class BaseWatch {
 public:
  /// `digest`: of the base as the run began with it; `examine`, a collective, gives that of the base as it is now.
  /// `copied`: the run has copies of all values, so that what it computes does not depend on the files any more.
  BaseWatch(Comm& comm, MappedWatch& files, std::string digest, std::function<std::string()> examine, bool copied)
      : comm_(comm), files_(files), digest_(std::move(digest)), examine_(std::move(examine)), copied_(copied) {}

  /// Whether pages were lost on this rank.
  bool lost_here() const { return !files_.lost().empty(); }
  /// The file that lost pages on any rank; "" when there is none. A collective.
  const std::string& find_lost();
  /// The file found by find_lost().
  const std::string& lost() const { return lost_; }

  struct Change {
    std::string text;    // "" when the base is what it was
    bool sound = false;  // the results are valid nevertheless
  };
  /// Compares the files with those that the run began with. A collective.
  Change change();

 private:
  Comm& comm_;
  MappedWatch& files_;
  std::string digest_, lost_;
  std::function<std::string()> examine_;
  bool copied_;
};

}  // namespace dml
