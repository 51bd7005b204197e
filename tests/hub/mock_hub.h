// A mock of the Hugging Face Hub beside a test, on two loopback ports: the endpoint, and the host that large files come
// from and go to. Its repositories are in memory; the cache that HF_HUB_CACHE names is a temporary folder. Files from 1
// kB on are in LFS.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "hub/client.h"
#include "hub/mock_server.h"

namespace dml::testing_tools {

/// Faults: the next `times` requests that a fault applies to are answered with it.
///
///   any request:  429 (number: Retry-After), status (number), hang up, html
///   a file:       cut (number: bytes, -1: somewhere), halt (of one in LFS; number: bytes), wrong bytes, longer, 416,
///                 no ranges, chunked
///   a listing:    bad name (text: the path), not a hub, redirect loop, redirect to a file
///   a repository: change (text: a file's new content, when it is asked for), no creation (403),
///                 ignore (text: a file that .gitignore names)
struct MockFault {
  int times = 0;
  int number = 1;
  std::string text = {};
};

class MockHub {
 public:
  MockHub();
  ~MockHub();

  std::string endpoint() const { return endpoint_->address(); }
  int cdn_port() const { return cdn_->port(); }

  /// "models/org/name/config.json"
  void add(const std::string& path, const std::string& content);
  /// Of any size: `fill` makes its bytes; `digest`: their SHA-256.
  void add_made(const std::string& path, std::uint64_t size, const std::string& digest,
                std::function<void(std::uint64_t offset, char* to, std::size_t count)> fill);
  void remove(const std::string& repository);
  /// "" when there is none.
  std::string content(const std::string& path) const;
  bool has(const std::string& path) const;

  /// `rate`: how probable each of them is.
  void set_faults(std::map<std::string, MockFault> faults, double rate = 1);
  /// Ends the downloads that came to a halt.
  void hang_up() { cdn_->hang_up(); }
  /// A line each: port, method, target, Range, Authorization.
  std::string requests() const;
  void forget_requests();
  /// What /api/repos/create was last asked for.
  Json created() const;

  std::string cache(const std::string& path = "") const { return folder_ + "/cache/" + path; }
  std::string scratch(const std::string& path) const { return folder_ + "/" + path; }
  /// Without pauses between tries.
  HubOptions options(const std::string& token = "") const;

 private:
  struct File {
    std::string content, digest;
    std::function<void(std::uint64_t, char*, std::size_t)> fill{};
    std::uint64_t size = 0;
    bool is_large() const;
  };
  static constexpr std::size_t kLargeFrom = 1000;  // bytes
  static constexpr const char* kToken = "Bearer secret-token";
  static MockAnswer in_json(int status, const Json& body);
  static MockAnswer error(int status, const char* said, const char* code = nullptr);
  static File file_of(const std::string& content);
  using Repository = std::map<std::string, File>;

  std::optional<MockFault> fault(const std::string& name);
  MockAnswer answer(const MockRequest& request, bool cdn);
  std::optional<MockAnswer> refusal();
  MockAnswer get(const MockRequest& request, bool cdn);
  MockAnswer post(const MockRequest& request, bool cdn);
  MockAnswer put(const MockRequest& request);
  std::optional<MockAnswer> no_access(const std::string& repository, const MockRequest& request) const;
  MockAnswer listing(const MockRequest& request, const std::string& repository, const std::string& what,
                     const std::string& revision);
  MockAnswer resolve(const MockRequest& request, const std::string& repository, const std::string& path);
  MockAnswer transfer(const MockRequest& request, const File& file, MockAnswer out);
  MockAnswer commit(const std::string& repository, const std::string& body);
  Json upload_of(const Json& object) const;
  std::string commit_of(const std::string& repository) const;

  const std::string folder_;
  mutable std::mutex mutex_;
  std::map<std::string, Repository> repositories_;  // by "models/org/name"
  std::map<std::string, std::string> uploaded_;     // by digest, or digest and part
  std::map<std::string, MockFault> faults_;
  double rate_ = 1;
  std::mt19937 random_{7};
  std::string requests_;
  Json created_;
  std::unique_ptr<MockServer> endpoint_, cdn_;
};

/// Bytes that do not repeat.
std::string varied_bytes(std::size_t size, unsigned seed = 1);

}  // namespace dml::testing_tools
