#include "hub/mock_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "core/error.h"

namespace dml::testing_tools {
namespace {

std::string decoded(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '%' && i + 2 < text.size())
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)), i += 2;
    else out += text[i];
  return out;
}

// One connection, as a stream of requests.
class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}

  bool read(MockRequest& request) {
    request = {};
    std::size_t end = 0;
    while ((end = pending_.find("\r\n\r\n")) == pending_.npos)
      if (!more()) return false;
    std::string head = pending_.substr(0, end + 2);
    pending_.erase(0, end + 4);
    for (std::size_t at = 0, line_end = 0; (line_end = head.find("\r\n", at)) != head.npos; at = line_end + 2)
      read_line(head.substr(at, line_end - at), request);
    const std::size_t size = std::strtoull(request.header("content-length", "0").c_str(), nullptr, 10);
    while (pending_.size() < size)
      if (!more()) return false;
    request.body = pending_.substr(0, size);
    pending_.erase(0, size);
    return true;
  }

  // Whether the connection goes on.
  bool answer(const MockRequest& request, const MockAnswer& what) {
    if (what.hang_up) return false;
    const std::uint64_t size = what.source ? what.size : what.body.size();
    std::string head = fmt::format("HTTP/1.1 {} Answer\r\nContent-Type: {}\r\n", what.status, what.type);
    head += what.chunked ? std::string("Transfer-Encoding: chunked\r\n") : fmt::format("Content-Length: {}\r\n", size);
    for (const auto& [name, value] : what.headers) head += name + ": " + value + "\r\n";
    head += "\r\n";
    if (request.method == "HEAD") return send(head);
    if (what.chunked) return send(head + in_chunks(what.body));
    const std::uint64_t some = std::min(size, what.cut.value_or(size));
    const bool sent = what.source ? send(head) && send_made(what, some) : send(head + what.body.substr(0, some));
    if (what.halt) more();  // until the client has had enough
    return sent && !what.cut && !what.halt;
  }

 private:
  bool more() {
    char buffer[16384];
    const ssize_t n = recv(socket_, buffer, sizeof buffer, 0);
    if (n > 0) pending_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  bool send_made(const MockAnswer& what, std::uint64_t size) const {
    std::string piece(std::size_t{1} << 18, '\0');
    for (std::uint64_t at = 0; at < size;) {
      const std::size_t n = std::min<std::uint64_t>(piece.size(), size - at);
      what.source(at, piece.data(), n);
      if (!send({piece.data(), n})) return false;
      at += n;
    }
    return true;
  }
  static std::string in_chunks(const std::string& body) {
    constexpr std::size_t kChunk = 700;
    std::string out;
    for (std::size_t at = 0; at < body.size(); at += kChunk) {
      const std::string chunk = body.substr(at, kChunk);
      out += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
    }
    return out + "0\r\n\r\n";
  }
  static void read_line(const std::string& line, MockRequest& request) {
    if (request.method.empty()) {
      const std::size_t one = line.find(' '), two = line.find(' ', one + 1);
      request.method = line.substr(0, one);
      request.target = line.substr(one + 1, two - one - 1);
      const std::size_t mark = std::min(request.target.find('?'), request.target.size());
      request.path = decoded(request.target.substr(0, mark));
      if (mark < request.target.size()) request.query = request.target.substr(mark + 1);
    } else if (const std::size_t colon = line.find(": "); colon != line.npos) {
      std::string name = line.substr(0, colon);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[name] = line.substr(colon + 2);
    }
  }

  int socket_;
  std::string pending_;
};

}  // namespace

std::string MockRequest::header(const std::string& name, const std::string& fallback) const {
  const auto found = headers.find(name);
  return found == headers.end() ? fallback : found->second;
}

MockServer::MockServer(Handler handler)
    : handler_(std::move(handler)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  DML_CHECK(listener_ >= 0 && bind(listener_, reinterpret_cast<sockaddr*>(&place), size) == 0 &&
                listen(listener_, 128) == 0 && getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size) == 0,
            "no port of the loopback can be listened to");
  port_ = ntohs(place.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

MockServer::~MockServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  hang_up();
  std::unique_lock guard(mutex_);
  all_ended_.wait(guard, [&] { return connections_.empty(); });
}

void MockServer::hang_up() {
  const std::lock_guard guard(mutex_);
  for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
}

void MockServer::accept_all() {
  for (int connection; (connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    const std::lock_guard guard(mutex_);
    connections_.insert(connection);
    std::thread([this, connection] { serve(connection); }).detach();
  }
}

void MockServer::serve(int connection) {
  const int at_once = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  Connection stream(connection);
  MockRequest request;
  while (stream.read(request) && stream.answer(request, handler_(request))) {
  }
  shutdown(connection, SHUT_RDWR);  // a child of the test may have it open, too
  const std::lock_guard guard(mutex_);
  close(connection);
  connections_.erase(connection);
  all_ended_.notify_all();
}

}  // namespace dml::testing_tools
