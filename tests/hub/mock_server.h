// An HTTP/1.1 server on a loopback port for tests, with one thread per connection. Its responses may be truncated,
// stall, or be missing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dml::testing_tools {

struct MockRequest {
  std::string method, target;                  // the target as it was sent
  std::string path, query;                     // of the target; the path is decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name, const std::string& fallback = {}) const;
};

struct MockAnswer {
  int status = 200;
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string type = "application/json";
  /// Instead of `body`: `size` bytes, made while they are sent.
  std::function<void(std::uint64_t offset, char* to, std::size_t count)> source{};
  std::uint64_t size = 0;
  std::optional<std::uint64_t> cut{};  // the connection ends after so many bytes of the body
  bool halt = false;                   // … or stays open without another byte
  bool chunked = false, hang_up = false;
};

class MockServer {
 public:
  using Handler = std::function<MockAnswer(const MockRequest& request)>;

  /// `handler` is called from many threads.
  explicit MockServer(Handler handler);
  /// Ends all connections.
  ~MockServer();

  int port() const { return port_; }
  /// Ends the connections of now, whatever comes on them.
  void hang_up();
  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void accept_all();
  void serve(int connection);

  const Handler handler_;
  int listener_ = -1, port_ = 0;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::set<int> connections_;
  std::thread acceptor_;
};

}  // namespace dml::testing_tools
