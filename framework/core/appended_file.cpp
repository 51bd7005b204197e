#include "core/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "core/error.h"

namespace dml {

AppendedFile::AppendedFile(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (!file_) throw IoError(path_, "cannot open for writing");
}

void AppendedFile::append(std::string_view bytes) { write_all(file_.get(), bytes.data(), bytes.size(), path_); }

void AppendedFile::truncate(std::size_t size) {
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) throw IoError(path_, "cannot truncate");
}

void AppendedFile::sync() {
  if (::fsync(file_.get()) != 0) throw IoError(path_, "cannot flush to disk");
}

}  // namespace dml
