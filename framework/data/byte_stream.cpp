#include "data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/hash.h"
#include "data/archive.h"

namespace dml {
namespace {

constexpr std::size_t kPackedBuffer = 1 << 18;

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : path_(path) {
    const bool standard = path == "/dev/stdin";  // may be a pipe: read once, from its start
    file_.reset(standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                         : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file_) throw UserError("{}: cannot be opened: {}", path, std::strerror(errno));
    if (fstat(file_.get(), &before_) != 0 || !(S_ISREG(before_.st_mode) || (standard && S_ISFIFO(before_.st_mode))))
      throw UserError("{}: is {}, not a file", path, S_ISDIR(before_.st_mode) ? "a folder" : "a pipe or device");
  }

  std::size_t read(char* buffer, std::size_t size) override {
    while (true) {
      ssize_t n = ::read(file_.get(), buffer, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw UserError("{}: cannot be read: {}", path_, std::strerror(errno));
      if (n == 0) check_unchanged();
      return static_cast<std::size_t>(n);
    }
  }

 private:
  void check_unchanged() const {
    if (!S_ISREG(before_.st_mode)) return;
    struct stat now;
    bool same = fstat(file_.get(), &now) == 0 && now.st_size == before_.st_size &&
                now.st_mtim.tv_sec == before_.st_mtim.tv_sec && now.st_mtim.tv_nsec == before_.st_mtim.tv_nsec;
    if (!same) throw UserError("{}: changed while it was read", path_);
  }
  std::string path_;
  Descriptor file_;
  struct stat before_ = {};
};

class GzipStream : public ByteStream {
 public:
  GzipStream(std::unique_ptr<ByteStream> in, std::string path)
      : in_(std::move(in)), path_(std::move(path)), packed_(kPackedBuffer) {
    if (inflateInit2(&z_, 15 + 16) != Z_OK) throw Error(ExitCode::memory, "zlib: out of memory");
  }
  ~GzipStream() override { inflateEnd(&z_); }

  std::size_t read(char* buffer, std::size_t size) override {
    z_.next_out = reinterpret_cast<Bytef*>(buffer);
    z_.avail_out = static_cast<uInt>(size);
    while (z_.avail_out == size) {
      if (z_.avail_in == 0) {
        z_.avail_in = static_cast<uInt>(in_->read(packed_.data(), packed_.size()));
        z_.next_in = reinterpret_cast<Bytef*>(packed_.data());
        if (z_.avail_in == 0) {
          if (!at_end_) throw UserError("{}: the gzip data ends early", path_);
          return 0;
        }
      }
      if (at_end_) {  // a file may consist of several members
        inflateReset(&z_);
        at_end_ = false;
      }
      int result = inflate(&z_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        at_end_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw UserError("{}: the gzip data is damaged{}", path_, z_.msg ? fmt::format(" ({})", z_.msg) : "");
      }
    }
    return size - z_.avail_out;
  }

 private:
  std::unique_ptr<ByteStream> in_;
  std::string path_;
  std::vector<char> packed_;
  z_stream z_ = {};
  bool at_end_ = true;
};

class ZstdStream : public ByteStream {
 public:
  ZstdStream(std::unique_ptr<ByteStream> in, std::string path)
      : in_(std::move(in)), path_(std::move(path)), packed_(kPackedBuffer), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (!context_) throw Error(ExitCode::memory, "zstd: out of memory");
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 27);  // 128 MiB at most
  }

  std::size_t read(char* buffer, std::size_t size) override {
    ZSTD_outBuffer out{buffer, size, 0};
    while (out.pos == 0) {
      if (input_.pos == input_.size) {
        input_ = {packed_.data(), in_->read(packed_.data(), packed_.size()), 0};
        if (input_.size == 0) {
          if (pending_ != 0) throw UserError("{}: the zstd data ends early", path_);
          return 0;
        }
      }
      pending_ = ZSTD_decompressStream(context_.get(), &out, &input_);
      if (ZSTD_isError(pending_))
        throw UserError("{}: the zstd data is damaged ({})", path_, ZSTD_getErrorName(pending_));
    }
    return out.pos;
  }

 private:
  std::unique_ptr<ByteStream> in_;
  std::string path_;
  std::vector<char> packed_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_;
  ZSTD_inBuffer input_ = {};
  std::size_t pending_ = 0;
};

// Opens a file, or a member of an archive, without decompressing it.
std::unique_ptr<ByteStream> open_stored(const std::string& path) {
  if (const auto member = parse_archive_member(path)) return open_archive_member(*member);
  return std::make_unique<PlainStream>(path);
}

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::string& path) {
  if (path == "/dev/stdin") return std::make_unique<PlainStream>(path);  // a pipe cannot be examined before it is read
  char magic[6] = {};
  open_stored(path)->read(magic, sizeof magic);
  const std::string_view head(magic, sizeof magic);
  auto plain = open_stored(path);
  if (head.starts_with("\x1f\x8b")) return std::make_unique<GzipStream>(std::move(plain), path);
  if (head.starts_with("\x28\xb5\x2f\xfd")) return std::make_unique<ZstdStream>(std::move(plain), path);
  if (is_compressed(head)) return open_compressed(std::move(plain), path);
  return plain;
}

std::string stream_digest(const std::string& path, std::size_t begin) {
  const auto stream = open_stored(path);
  std::vector<char> buffer(kPackedBuffer);
  Hasher hasher;
  while (std::size_t n = stream->read(buffer.data(), buffer.size())) {
    const std::size_t skip = std::min(begin, n);
    hasher.bytes(buffer.data() + skip, n - skip);
    begin -= skip;
  }
  return hasher.digest();
}

}  // namespace dml
