// Download of one file of the Hub into the cache: fetched in ranges by several threads, resumed after a kill, and
// accepted only with the size and digest that the Hub lists.
//
//   blobs/DIGEST.dml.incomplete   the bytes, each range at its place
//   blobs/DIGEST.dml.parts        which ranges are whole: a byte each, after a line with size and length of a range
//   blobs/DIGEST                  the finished file, by rename
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/file_lock.h"
#include "core/sha.h"
#include "hub/listing.h"

namespace dml {

/// The Hub has another file now than it listed: list again.
class HubFileChanged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The data that arrived was discarded; a further try starts over.
class HubDigestWrong : public IoError {
 public:
  using IoError::IoError;
};

class Transfer {
 public:
  /// `blobs`: the folder; `locks`: that of the lock files; `range_bytes`: what a thread fetches at once.
  Transfer(HubFile file, std::string blobs, std::string locks, std::uint64_t range_bytes);
  ~Transfer();

  const HubFile& file() const { return file_; }
  std::uint64_t ranges() const { return ranges_; }
  /// Bytes that a further run need not fetch, without opening anything.
  std::uint64_t already_there() const;

  /// Fetches a range, unless it is there; the caller that completes the file checks its digest and gives it its name.
  /// `arrived` is told of every byte. IoError, UserError or HubFileChanged. Safe to call from many threads, once for
  /// each range.
  void fetch(const HubClient& client, const std::string& url, std::uint64_t range, std::atomic<std::uint64_t>& arrived);

  static constexpr std::string_view kIncomplete = ".dml.incomplete", kParts = ".dml.parts";

 private:
  struct Stream;
  bool open();  // whether the blob is there
  void start_over();
  void forget_hashes();
  void download(const HubClient& client, const std::string& url, std::uint64_t begin, std::uint64_t end,
                std::atomic<std::uint64_t>& arrived);
  void download_whole(const HubClient& client, const std::string& url, std::atomic<std::uint64_t>& arrived);
  void set_done(std::uint64_t range);
  void hash_ready(bool wait);
  void finish();
  std::string path(std::string_view suffix) const { return blobs_ + "/" + file_.digest + std::string(suffix); }

  const HubFile file_;
  const std::string blobs_, locks_;
  const std::uint64_t range_bytes_, ranges_;

  std::mutex opening_, hashing_;
  std::shared_mutex whole_;  // shared by those who write a range
  std::optional<FileLock> lock_;
  bool opened_ = false, there_ = false;  // there_: the blob is in the cache
  bool ranges_ignored_ = false;          // by the server: the file comes in one piece
  int data_ = -1, parts_ = -1;
  std::unique_ptr<std::atomic<bool>[]> done_;
  std::atomic<std::uint64_t> left_{0};
  std::uint64_t hashed_ = 0;  // ranges, from the front
  Sha256 sha256_;
  Sha1 sha1_;
};

}  // namespace dml
