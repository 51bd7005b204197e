// HTTP/1.1 for the server: requests are delivered complete and checked; answers are sent whole or as a stream, from any
// thread. Only http.cpp includes the library (GNU libmicrohttpd, one thread on epoll). It adds checks that the library
// does not make: deadlines for slow headers and bodies, limits, contradicting lengths.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dml {

struct HttpRequest {
  std::string method, path;
  std::multimap<std::string, std::string> headers;  // names in lower case
  std::string body;

  /// The value of a header; "" if it is absent.
  std::string header(const std::string& name) const {
    auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct HttpResponse {
  int status = 200;
  std::string body = "", type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// The answer to one request. Thread-safe. Calls after the end of the connection are ignored.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  /// Adds a header to the answer. Before send() and begin().
  virtual void add_header(const std::string& name, const std::string& value) = 0;
  /// Sends the whole answer. At most once, and not after begin().
  virtual void send(HttpResponse response) = 0;
  /// Sends status and headers; write() then sends the body.
  virtual void begin(HttpResponse head) = 0;
  virtual void write(std::string_view piece) = 0;
  /// Ends the body.
  virtual void finish() = 0;
  /// Whether the client has disconnected or does not read, so the rest of the answer may be dropped.
  virtual bool gone() const = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any
  std::size_t body_bytes = std::size_t{16} << 20;
  unsigned connections = 1000;
  std::chrono::seconds request_time{10};  // for the headers, then for the body at 1 kB/s or more
  std::chrono::seconds idle_time{30};     // between an answer and the next request; for a connection without traffic
  std::chrono::seconds closing_time{5};   // for sending the answers that are complete when the server ends
  std::size_t unread_bytes =
      std::size_t{4}
      << 20;  // maximum of streamed bytes that the client has not read; beyond it the request is canceled
};

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest request, std::shared_ptr<HttpReply> reply)>;
  /// Makes the response to a request that is rejected before it is complete, from status and reason.
  using Refusal = std::function<HttpResponse(int status, const std::string& why)>;

  /// Listens and serves on a thread of its own, which calls `handler`. IoError when the address cannot be bound.
  HttpServer(const HttpOptions& options, Handler handler, Refusal refusal);
  /// Sends the rest of the answers that are complete, then closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  /// Accepts no new connections; open ones stay.
  void stop_listening();
  std::size_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dml
