#include "hub/transfer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <shared_mutex>
#include <vector>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/shown.h"
#include "core/text.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

std::string etag_of(const WebHeaders& headers) {
  for (const char* name : {"x-linked-etag", "etag"})
    if (auto found = headers.find(name); found != headers.end()) {
      std::string tag = found->second;
      if (tag.starts_with("W/")) tag.erase(0, 2);
      std::erase(tag, '"');
      return tag;
    }
  return {};
}

bool is_digest(const std::string& tag) { return is_hex(tag, 40) || is_hex(tag, 64); }

Descriptor open_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) throw IoError(path, "cannot create");
  return file;
}

}  // namespace

// Receives the bytes [at, end). Of a range, those that have arrived are noted in steps, and at its end, however it
// ends.
struct Transfer::Stream {
  static constexpr std::uint64_t kStep = std::uint64_t{256} << 10;

  Transfer& owner;
  std::uint64_t begin, end, at;
  std::atomic<std::uint64_t>& arrived;
  std::optional<std::uint64_t> range = {};  // unset: the whole file
  std::uint64_t noted = at;
  bool checked = false, ignored_range = false;

  void note() {
    if (range && at != noted) owner.note(*range, at - begin);
    noted = at;
  }

  void start_over() {
    arrived -= at - begin;
    at = begin;
    note();
  }

  bool asks_for_part() const { return at > 0 || end < owner.file_.size; }

  void check(const WebAnswer& head) {
    const HubFile& file = owner.file_;
    if (!head.first.contains("x-repo-commit"))
      throw IoError(fmt::format(
          "{}: {} is not the Hub: its answer names no commit. A login page of the network, or a wrong HF_ENDPOINT?",
          file.path, origin_of(head.url)));
    if (const std::string tag = etag_of(head.first); is_digest(tag) && tag != file.digest)
      throw HubFileChanged(file.path);
    if (head.status == 206) {
      const std::string sent = head.header("content-range");
      if (!sent.starts_with(fmt::format("bytes {}-", at)) ||
          (!sent.ends_with("/*") && !sent.ends_with(fmt::format("/{}", file.size))))
        throw IoError(fmt::format("{}: requested bytes from {} of {}, the server returned '{}'", file.path, at,
                                  file.size, shown(sent)));
    } else if (asks_for_part()) {
      ignored_range = true;
    }
  }

  bool take(const WebAnswer& head, std::string_view piece) {
    if (!checked) check(head);
    checked = true;
    if (ignored_range) return false;
    if (piece.size() > end - at)
      throw IoError(
          fmt::format("{}: more than the {} bytes that the Hub lists arrived", owner.file_.path, owner.file_.size));
    write_all_at(owner.data_.get(), piece.data(), piece.size(), at, owner.path(kIncomplete));
    at += piece.size();
    arrived += piece.size();
    if (at - noted >= kStep) note();
    return true;
  }
};

Transfer::Transfer(HubFile file, std::string blobs, std::string locks, std::uint64_t range_bytes)
    : file_(std::move(file)),
      blobs_(std::move(blobs)),
      locks_(std::move(locks)),
      range_bytes_(range_bytes),
      ranges_(std::max<std::uint64_t>(1, (file_.size + range_bytes - 1) / range_bytes)) {}

std::uint64_t Transfer::already_there() const {
  std::error_code none;
  if (fs::file_size(path(""), none) == file_.size && !none) return file_.size;
  struct stat status {};
  if (stat(path(kIncomplete).c_str(), &status) != 0) return 0;
  return std::min(file_.size, static_cast<std::uint64_t>(status.st_blocks) * 512);
}

bool Transfer::open() {
  const std::lock_guard guard(opening_);
  if (opened_) return there_;
  const std::string name = locks_ + "/" + file_.digest + ".lock";
  std::optional<FileLock> lock = FileLock::try_for(name);
  if (!lock) {
    log_info("{}: waiting for the process that downloads it", file_.path);
    lock = FileLock::wait_for(name);
  }
  std::error_code none;
  there_ = fs::file_size(path(""), none) == file_.size && !none;
  if (!there_) {
    open_parts();
    lock_ = std::move(lock);
  }
  opened_ = true;
  return there_;
}

// Opens the files of a partial download, and reads which bytes they hold.
void Transfer::open_parts() {
  data_ = open_file(path(kIncomplete));
  parts_ = open_file(path(kParts));
  done_ = std::make_unique<std::atomic<bool>[]>(ranges_);
  found_.assign(ranges_, 0);
  left_ = ranges_;
  const std::string head = head_of_parts();
  std::string known(head.size() + ranges_ * sizeof(std::uint64_t), '\0');
  const std::size_t n = read_at(parts_.get(), known.data(), known.size(), 0, path(kParts));
  if (n < head.size() || !known.starts_with(head)) return start_over();
  for (std::uint64_t r = 0; r < ranges_; ++r) {
    std::memcpy(&found_[r], known.data() + head.size() + r * sizeof(std::uint64_t), sizeof(std::uint64_t));
    const std::uint64_t bytes = end_of(r) - r * range_bytes_;
    if (found_[r] > bytes) found_[r] = 0;  // damaged
    if (found_[r] == bytes && bytes > 0) done_[r] = true, --left_;
  }
}

void Transfer::start_over() {
  for (std::uint64_t r = 0; r < ranges_; ++r) done_[r] = false;
  left_ = ranges_;
  forget_hashes();
  if (ftruncate(data_.get(), 0) != 0 || ftruncate(parts_.get(), 0) != 0)
    throw IoError(path(kIncomplete), "cannot be emptied");
  const std::string head = head_of_parts();
  write_all_at(parts_.get(), head.data(), head.size(), 0, path(kParts));
}

void Transfer::forget_hashes() {
  hashed_ = 0;
  sha256_ = Sha256();
  sha1_ = Sha1();
}

std::string Transfer::head_of_parts() const { return fmt::format("{} bytes in {}\n", file_.size, range_bytes_); }

void Transfer::note(std::uint64_t range, std::uint64_t bytes) {
  write_all_at(parts_.get(), &bytes, sizeof bytes, head_of_parts().size() + range * sizeof bytes, path(kParts));
}

void Transfer::set_done(std::uint64_t range) {
  note(range, end_of(range) - range * range_bytes_);
  if (!done_[range].exchange(true)) --left_;  // another thread may have received the whole file
}

void Transfer::fetch(const HubClient& client, const std::string& url, std::uint64_t range,
                     std::atomic<std::uint64_t>& arrived) {
  if (open()) {
    arrived += std::min(range_bytes_, file_.size - range * range_bytes_);
    return;
  }
  const std::uint64_t begin = range * range_bytes_, end = end_of(range);
  const bool known = done_[range];
  if (known) {
    arrived += end - begin;
  } else {
    download(client, url, range, arrived);
    set_done(range);
  }
  hash_ready(false);
  if (left_ == 0) finish();
}

void Transfer::download(const HubClient& client, const std::string& url, std::uint64_t range,
                        std::atomic<std::uint64_t>& arrived) {
  std::shared_lock guard(whole_);
  if (ranges_ignored_) return;  // the thread that noticed has downloaded the whole file
  const std::uint64_t begin = range * range_bytes_, end = end_of(range);
  Stream stream{*this, begin, end, begin + found_[range], arrived, range};
  arrived += found_[range];
  int without_progress = 0, refused_ranges = 0;
  while (stream.at < end || (end == 0 && !stream.checked)) {
    const std::uint64_t before = stream.at;
    std::uint64_t tried = stream.at;
    auto prepare = [&](WebRequest& request) {
      stream.note();
      request.headers = {"Accept-Encoding: identity"};
      if (stream.asks_for_part()) request.headers.push_back(fmt::format("Range: bytes={}-{}", stream.at, end - 1));
      stream.checked = false;
      return std::exchange(tried, stream.at) != stream.at;
    };
    WebRequest request = WebRequest::get(url);
    request.take = [&](const WebAnswer& head, std::string_view piece) { return stream.take(head, piece); };
    prepare(request);
    const WebAnswer answer = client.send(request, prepare);
    stream.note();
    if (stream.ignored_range) {
      guard.unlock();
      return download_whole(client, url, arrived);
    }
    if (answer.status == 416 && ++refused_ranges < 3) {  // the range does not exist on the server any more: start over
      stream.start_over();
      continue;
    }
    client.require_success(answer, file_.path);
    if (end == 0) return stream.check(answer);
    if (stream.at == before && ++without_progress == client.options().tries)
      throw IoError(fmt::format("{}: the response ends after {} of {} bytes", file_.path, stream.at, file_.size));
  }
}

// Downloads the whole file from a server that ignores ranges, while no other process writes. Ranges downloaded before
// are written again, and hashing starts over.
void Transfer::download_whole(const HubClient& client, const std::string& url, std::atomic<std::uint64_t>& arrived) {
  const std::unique_lock guard(whole_);
  if (ranges_ignored_) return;
  Stream stream{*this, 0, file_.size, 0, arrived};
  auto prepare = [&](WebRequest& request) {
    request.headers = {"Accept-Encoding: identity"};
    arrived -= stream.at;
    stream.at = 0;
    stream.checked = false;
    return false;
  };
  WebRequest request = WebRequest::get(url);
  request.take = [&](const WebAnswer& head, std::string_view piece) { return stream.take(head, piece); };
  WebAnswer answer;
  for (int tried = 0; tried < client.options().tries && stream.at < file_.size; ++tried) {
    prepare(request);
    answer = client.send(request, prepare);
    client.require_success(answer, file_.path);
  }
  if (stream.at < file_.size)
    throw IoError(fmt::format("{}: the response ends after {} of {} bytes", file_.path, stream.at, file_.size));
  ranges_ignored_ = true;
  {
    const std::lock_guard hashing(hashing_);
    forget_hashes();
  }
  for (std::uint64_t r = 0; r < ranges_; ++r) set_done(r);
}

// Hashes the completed ranges in order while later ones are downloaded; the data is read from the page cache.
void Transfer::hash_ready(bool wait) {
  std::unique_lock guard(hashing_, std::defer_lock);
  if (wait) guard.lock();
  else if (!guard.try_lock()) return;
  if (hashed_ == 0 && !file_.is_large()) {
    sha1_ = Sha1();
    sha1_.update(fmt::format("blob {}", file_.size)).update("\0", 1);
  }
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  std::vector<char> piece(kPiece);
  for (; hashed_ < ranges_ && done_[hashed_]; ++hashed_) {
    const std::uint64_t end = end_of(hashed_);
    for (std::uint64_t at = hashed_ * range_bytes_; at < end;) {
      const std::size_t n =
          read_at(data_.get(), piece.data(), std::min<std::uint64_t>(kPiece, end - at), at, path(kIncomplete));
      if (n == 0) throw IoError(path(kIncomplete) + ": became shorter while it was downloaded");
      if (file_.is_large()) sha256_.update(piece.data(), n);
      else sha1_.update(piece.data(), n);
      at += n;
    }
  }
}

void Transfer::finish() {
  const std::lock_guard guard(opening_);
  if (there_) return;
  hash_ready(true);
  const std::string digest = file_.is_large() ? sha256_.hex() : sha1_.hex();
  if (digest != file_.digest || ftruncate(data_.get(), static_cast<off_t>(file_.size)) != 0) {
    unlink(path(kIncomplete).c_str());
    unlink(path(kParts).c_str());
    throw HubDigestWrong(fmt::format("{}: the download has the digest {}, the Hub lists {}; it was discarded",
                                     file_.path, digest, file_.digest));
  }
  sync_path(path(kIncomplete));
  if (rename(path(kIncomplete).c_str(), path("").c_str()) != 0) throw IoError(path(""), "cannot rename into place");
  unlink(path(kParts).c_str());
  there_ = true;
  lock_.reset();
}

}  // namespace dml
