#include "pipeline/kept_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"

namespace dml {

std::string KeptRows::partial_name(const std::string& path) {
  const std::string target = replaceable_target(path);
  return target.empty() ? "" : target + ".partial";
}

KeptRows::KeptRows(std::string path, bool resume)
    : path_(std::move(path)), target_(replaceable_target(path_)), partial_(partial_name(path_)) {
  if (partial_.empty()) {
    file_.reset(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!file_) throw IoError(path_, "cannot create");
    return;
  }
  unfinished_.emplace();
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  file_.reset(open(partial_.c_str(), kFlags | (resume ? 0 : O_EXCL), 0666));
  if (!file_ && errno == EEXIST)
    throw UserError("{} has rows of an interrupted run: continue it with --resume, or remove this file", partial_);
  if (!file_) throw IoError(partial_, "cannot create");
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    file_.reset();
    throw UserError("{} is written by another process", partial_);
  }
  if (resume) take_earlier();
}

KeptRows::~KeptRows() {
  if (file_ && !partial_.empty() && rows_ == copied_) unlink(partial_.c_str());
}

// Reads the complete rows. The last row is dropped if the process was killed while writing it.
void KeptRows::take_earlier() {
  const bool unfinished = std::filesystem::file_size(partial_) > 0;
  constexpr std::size_t kLargest = std::size_t{1} << 36;
  earlier_in_ = unfinished || !file_exists(target_) ? partial_ : path_;
  const std::string text = read_file(earlier_in_, kLargest);
  for (std::size_t end; (end = text.find('\n', bytes_)) != text.npos; bytes_ = end + 1)
    earlier_.push_back(text.substr(bytes_, end - bytes_));
  rows_ = earlier_.size();
  if (earlier_in_ == partial_) {
    if (ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) throw IoError(partial_, "cannot truncate");
  } else {
    write_all(file_.get(), text.data(), bytes_, partial_);
    copied_ = rows_;
  }
  if (rows_ > 0) log_info("{}: continued after its {} rows", earlier_in_, rows_);
}

std::string KeptRows::place(std::size_t row) const { return fmt::format("{}:{}", earlier_in_, row + 1); }

void KeptRows::refuse(std::size_t row) const {
  throw UserError(
      "--resume: {} is not the result of row {} of --input; was it written for another file, or with other options?{}",
      place(row), row + 1, copied_ > 0 ? " Without --resume the file is replaced" : "");
}

void KeptRows::require_at_most(std::size_t total) const {
  if (earlier_.size() > total)
    throw UserError("--resume: {} has {} rows, --input has {}; was it written for another file?", earlier_in_,
                    earlier_.size(), total);
}

void KeptRows::append(std::string_view line) {
  check_interruption();
  std::string row(line);
  row += '\n';
  try {
    write_all(file_.get(), row.data(), row.size(), partial_.empty() ? path_ : partial_);
  } catch (const IoError&) {  // the disk is full: the part of the row that was written is removed
    if (!partial_.empty() && ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
      log_warning("{}: the last row is not complete", partial_);
    throw;
  }
  ++rows_;
  bytes_ += row.size();
}

void KeptRows::put(std::size_t row, std::string_view line) {
  if (row >= earlier_.size()) return append(line);
  refused_ = line != earlier_[row];
  if (refused_) refuse(row);
}

void KeptRows::fill(std::size_t total, const std::function<void()>& compute) {
  try {
    compute();
    check_interruption();
  } catch (const Error& e) {
    // Where nothing was added the file is removed, and rows of other options are refused again.
    if (partial_.empty() || rows_ == copied_ || refused_) throw;
    const std::string kept = fmt::format("{} of {} rows are in {}; the same command with --resume continues after them",
                                         rows_, total, partial_);
    if (e.code() == ExitCode::interrupted) throw Error(ExitCode::interrupted, "interrupted; " + kept);
    log_warning("{}", kept);
    throw;
  }
  commit();
}

void KeptRows::commit() {
  if (fsync(file_.get()) != 0 && (errno != EINVAL || !partial_.empty())) throw IoError(path_, "cannot write to disk");
  if (partial_.empty()) return;
  if (rename(partial_.c_str(), target_.c_str()) != 0) throw IoError(path_, "cannot finish writing");
  file_.reset();
  const std::string folder = std::filesystem::path(target_).parent_path().string();
  sync_path(folder.empty() ? "." : folder);
}

}  // namespace dml
