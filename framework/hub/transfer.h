// Downloads one file of the Hub into the cache: in ranges by several threads, resumable after a kill, and accepted only
// with the size and digest that the Hub lists.
//
//   blobs/DIGEST.dml.incomplete   the bytes, each range at its offset
//   blobs/DIGEST.dml.parts        a line with file size and range length, then for each range the number of its first
//                                 bytes that are there (8 bytes each), written after the bytes themselves
//   blobs/DIGEST                  the complete file, renamed
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file_lock.h"
#include "core/sha.h"
#include "hub/listing.h"

namespace dml {

/// The file on the Hub differs from the listing, which must be repeated.
class HubFileChanged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The downloaded data had the wrong digest and was discarded; a retry starts over.
class HubDigestWrong : public IoError {
 public:
  using IoError::IoError;
};

class Transfer {
 public:
  /// `blobs`: the folder of blobs; `locks`: that of lock files; `range_bytes`: bytes per range.
  Transfer(HubFile file, std::string blobs, std::string locks, std::uint64_t range_bytes);

  const HubFile& file() const { return file_; }
  std::uint64_t ranges() const { return ranges_; }
  /// Bytes that were already downloaded; opens no file.
  std::uint64_t already_there() const;

  /// Downloads a range unless it is complete. The caller that completes the file checks its digest and renames it.
  /// `arrived` counts received bytes. IoError, UserError or HubFileChanged. Thread-safe; call once per range.
  void fetch(const HubClient& client, const std::string& url, std::uint64_t range, std::atomic<std::uint64_t>& arrived);

  static constexpr std::string_view kIncomplete = ".dml.incomplete", kParts = ".dml.parts";

 private:
  struct Stream;
  bool open();  // returns whether the blob is in the cache
  void open_parts();
  void start_over();
  void forget_hashes();
  void download(const HubClient& client, const std::string& url, std::uint64_t range,
                std::atomic<std::uint64_t>& arrived);
  void download_whole(const HubClient& client, const std::string& url, std::atomic<std::uint64_t>& arrived);
  std::uint64_t end_of(std::uint64_t range) const { return std::min(file_.size, (range + 1) * range_bytes_); }
  std::string head_of_parts() const;
  void note(std::uint64_t range, std::uint64_t bytes);
  void set_done(std::uint64_t range);
  void hash_ready(bool wait);
  void finish();
  std::string path(std::string_view suffix) const { return blobs_ + "/" + file_.digest + std::string(suffix); }

  const HubFile file_;
  const std::string blobs_, locks_;
  const std::uint64_t range_bytes_, ranges_;

  std::mutex opening_, hashing_;
  std::shared_mutex whole_;  // shared by the threads that write a range
  std::optional<FileLock> lock_;
  bool opened_ = false, there_ = false;  // there_: the blob is in the cache
  bool ranges_ignored_ = false;          // the server ignores ranges and sends the whole file
  Descriptor data_, parts_;
  std::unique_ptr<std::atomic<bool>[]> done_;
  std::vector<std::uint64_t> found_;  // bytes of each range that an earlier process downloaded
  std::atomic<std::uint64_t> left_{0};
  std::uint64_t hashed_ = 0;  // number of hashed ranges, from the start
  Sha256 sha256_;
  Sha1 sha1_;
};

}  // namespace dml
