// Watches the files of the base model while a run maps them: detects pages that can no longer be read, and files that
// were modified.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/mapped_watch.h"
#include "dist/comm.h"

namespace dml {

class BaseWatch {
 public:
  /// `digest`: the base's digest when the run began. `examine`: computes the digest of the base as it is now; a
  /// collective. `copied`: the run holds copies of all values, so its results do not depend on the files any more.
  BaseWatch(Comm& comm, MappedWatch& files, std::string digest, std::function<std::string()> examine, bool copied)
      : comm_(comm), files_(files), digest_(std::move(digest)), examine_(std::move(examine)), copied_(copied) {}

  /// Whether pages were lost on this rank.
  bool lost_here() const { return !files_.lost().empty(); }
  /// The file that lost pages on any rank; "" when there is none. A collective.
  const std::string& find_lost();
  /// The file found by find_lost().
  const std::string& lost() const { return lost_; }

  struct Change {
    std::string text;    // what was modified; "" when the base is unchanged
    bool sound = false;  // the results computed so far are valid nevertheless
  };
  /// Compares the files with their state when the run began. A collective.
  Change change();

 private:
  Comm& comm_;
  MappedWatch& files_;
  std::string digest_, lost_;
  std::function<std::string()> examine_;
  bool copied_;
};

}  // namespace dml
