// Writes a file whose rows take long to compute, such as answers: an interrupted run keeps the rows that it computed,
// and a later run continues after them.
//
// Each row is written to PATH.partial as soon as it is complete; commit() renames that file to PATH. So PATH is either
// complete or unchanged, and PATH.partial has only complete rows, even after the process was killed.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.h"
#include "core/interruption.h"

namespace dml {

class KeptRows {
 public:
  /// `resume`: continues PATH.partial, or, if it does not exist, a PATH that is complete: for the same input nothing is
  /// left to compute, for a longer one its end. Without `resume`, a PATH.partial that exists is a UserError. A path
  /// that cannot be replaced (a device, a pipe) is written directly.
  KeptRows(std::string path, bool resume);
  /// The name of PATH.partial; "" for a path that is written directly.
  static std::string partial_name(const std::string& path);
  /// Without commit(), removes PATH.partial if it has no rows beside those copied from PATH.
  ~KeptRows();
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;

  /// The rows of the run that is continued, and where each of them is ("PATH.partial:3", "PATH:3").
  const std::vector<std::string>& earlier() const { return earlier_; }
  std::string place(std::size_t row) const;
  /// UserError: this earlier row is not what the present run would have written.
  [[noreturn]] void refuse(std::size_t row) const;
  /// UserError when there are more than `total` earlier rows.
  void require_at_most(std::size_t total) const;
  /// Writes a row; `line` has no newline.
  void append(std::string_view line);
  /// For results that are the same whenever the options are: the last earlier row is computed again, in order to notice
  /// other options. first_to_compute() is its number; put() compares that row (UserError if it differs) and writes
  /// those after it.
  std::size_t first_to_compute() const { return earlier_.empty() ? 0 : earlier_.size() - 1; }
  void put(std::size_t row, std::string_view line);
  /// Calls `compute`, which appends the rows up to `total`, and commits. After an error a warning says how many rows
  /// are kept, if a resumed run would continue after them; the message of an interruption says that by itself.
  void fill(std::size_t total, const std::function<void()>& compute);

 private:
  void take_earlier();
  void commit();

  std::string path_, target_, partial_;  // as given; without links; empty if the target is written directly
  std::optional<UnfinishedOutput> unfinished_;
  Descriptor file_;
  std::vector<std::string> earlier_;
  std::string earlier_in_;                         // the file that they were read from
  std::size_t rows_ = 0, bytes_ = 0, copied_ = 0;  // in the new file; copied_: rows copied from PATH
  bool refused_ = false;                           // put() refused a row
};

}  // namespace dml
