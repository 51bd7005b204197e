// HTTP/1.1 for the server: requests come complete and checked, answers go whole or as a stream, from any thread. The
// one place that knows the library (GNU libmicrohttpd, one thread on epoll).
//
// What the library lets through is checked here: deadlines for slow headers and bodies, limits, contradicting lengths.
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

  /// "" where there is none.
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

/// The answer to one request. Calls may come from any thread, and after the end of the connection, where they do
/// nothing.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  /// Goes out with the answer, whoever makes it. Before send() and begin().
  virtual void add_header(const std::string& name, const std::string& value) = 0;
  /// The whole answer. Once, and not after begin().
  virtual void send(HttpResponse response) = 0;
  /// Status and headers of an answer whose body follows in pieces.
  virtual void begin(HttpResponse head) = 0;
  virtual void write(std::string_view piece) = 0;
  /// After the last piece.
  virtual void finish() = 0;
  /// The client has left, or does not read: nothing more need be said.
  virtual bool gone() const = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any
  std::size_t body_bytes = std::size_t{16} << 20;
  unsigned connections = 1000;
  std::chrono::seconds request_time{10};            // until headers, and then a body at 1 kB/s, are there
  std::chrono::seconds idle_time{30};               // of a connection that neither sends nor reads
  std::size_t unread_bytes = std::size_t{4} << 20;  // of a stream whose client does not keep up
};

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest request, std::shared_ptr<HttpReply> reply)>;
  /// An answer to a request that is refused before it is complete: (status, sentence).
  using Refusal = std::function<HttpResponse(int status, const std::string& why)>;

  /// Listens and serves from a thread of its own, on which `handler` is called. IoError where the address cannot be
  /// had.
  HttpServer(const HttpOptions& options, Handler handler, Refusal refusal);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  /// No new connections; those that are open stay.
  void stop_listening();
  std::size_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dml
