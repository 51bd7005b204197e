// The HTTP layer over real sockets on the loopback: accepted and rejected requests, streams, and clients that
// disconnect.
#include "serve/http.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

namespace dml {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int kPatience = 25000;  // looks, one every 10 ms, that only a hang takes

class Socket {
 public:
  explicit Socket(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{250, 0};  // only a hang takes so long
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Socket() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void send(const std::string& text) { ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// Everything until the server closes, or `until` has come.
  std::string receive(const std::string& until = "\1") {
    std::string out;
    char some[4096];
    for (std::size_t from = 0; out.find(until, from) == out.npos;) {
      const ssize_t n = ::recv(fd_, some, sizeof some, 0);
      if (n <= 0) break;
      from = out.size() - std::min(out.size(), until.size());
      out.append(some, static_cast<std::size_t>(n));
    }
    return out;
  }

 private:
  int fd_;
};

class Http : public testing::Test {
 protected:
  /// `request_time`: so long that no machine is too slow for it.
  explicit Http(std::chrono::seconds request_time = std::chrono::seconds(1000))
      : server(
            options(request_time), [this](HttpRequest r, std::shared_ptr<HttpReply> reply) { answer(r, reply); },
            [](int status, const std::string& why) { return HttpResponse{.status = status, .body = why}; }) {}
  static HttpOptions options(std::chrono::seconds request_time) {
    HttpOptions o;
    o.body_bytes = 1000;
    o.request_time = request_time;
    return o;
  }
  std::atomic<int> streams{0}, left{0};
  std::vector<std::thread> writers;
  HttpServer server;

  void answer(const HttpRequest& r, const std::shared_ptr<HttpReply>& reply) {
    if (r.path == "/stream") {
      const bool brief = ++streams == 1;
      writers.emplace_back([this, reply, brief] {
        reply->begin({.type = "text/event-stream"});
        for (int i = 0; !reply->gone() && !(brief && i == 10); ++i) {
          reply->write("data: " + std::to_string(i) + "\n\n");
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        left += reply->gone();
        reply->finish();
      });
    } else if (r.path == "/never") {
      writers.emplace_back([this, reply] {
        while (!reply->gone()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ++left;
      });
    } else {
      reply->send({.status = 200, .body = r.method + " " + r.path + " " + r.header("host") + " " + r.body});
    }
  }
  void TearDown() override {
    for (std::thread& w : writers) w.join();
  }
  std::string ask(const std::string& text, const std::string& until = "\1") {
    Socket s(server.port());
    s.send(text);
    return s.receive(until);
  }
  static std::string head(const std::string& first, const std::string& more = "") {
    return first + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + more + "\r\n";
  }
};

TEST_F(Http, AnswersRequestsWithAndWithoutABody) {
  EXPECT_THAT(ask(head("GET /x")), testing::AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\r\n\r\nGET /x localhost ")));
  EXPECT_THAT(ask(head("POST /x", "Content-Length: 5\r\n") + "hello"), HasSubstr("\r\n\r\nPOST /x localhost hello"));
  for (const char* coding : {"chunked", "Chunked"})
    EXPECT_THAT(
        ask(head("POST /x", std::string("Transfer-Encoding: ") + coding + "\r\n") + "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
        HasSubstr("POST /x localhost hello"));
}

TEST_F(Http, ATargetMayBeAbsolute) {
  EXPECT_THAT(ask(head("GET http://other:80/a/b?c=http://d/")), HasSubstr("\r\n\r\nGET /a/b other:80 "));
  EXPECT_THAT(ask(head("GET HTTPS://other")), HasSubstr("\r\n\r\nGET / other "));
  EXPECT_THAT(ask("GET http://other/ HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

// Browsers send the cookies of all servers of a host.
TEST_F(Http, HeadersMayBeLarge) {
  for (const char* name : {"Cookie: ", "X-Long: "})
    EXPECT_THAT(ask(head("GET /x", name + std::string(30000, 'a') + "\r\n")), StartsWith("HTTP/1.1 200"));
  const std::string refused = ask(head("GET /x", "Cookie: " + std::string(40000, 'a') + "\r\n"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(refused, testing::EndsWith("\r\n\r\nthe header fields are too large"));
}

TEST_F(Http, KeepsAConnectionForMoreRequests) {
  Socket s(server.port());
  for (int i = 0; i < 20; ++i) {
    s.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n#" + std::to_string(i % 10));
    EXPECT_THAT(s.receive("POST /x a #" + std::to_string(i % 10)), StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(Http, RefusesWhatIsWrongInTheHeaders) {
  struct Case {
    std::string text, status;
  };
  const std::string big(60000, 'a');
  for (const Case& c :
       std::vector<Case>{{head("POST /x", "Content-Length: 2\r\nContent-Length: 3\r\n") + "ab", "400"},
                         {head("POST /x", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", "400"},
                         {head("POST /x", "Content-Length: -2\r\n") + "ab", "400"},
                         {head("POST /x", "Content-Length: 0x2\r\n") + "ab", "400"},
                         {head("POST /x", "Content-Length: 999999999999\r\n"), "413"},
                         {head("POST /x", "Content-Length: 1001\r\n") + std::string(1001, 'a'), "413"},
                         {head("POST /x", "Transfer-Encoding: gzip\r\n"), "501"},
                         {head("POST /x"), "411"},
                         {head("BREW /x"), "501"},
                         {"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", "400"},
                         {head("GET /" + big), "414"},
                         {head("GET /x", "X-Long: " + big + "\r\n"), "431"}}) {
    const std::string answer = ask(c.text);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + c.status)) << c.text.substr(0, 90);
  }
  EXPECT_THAT(ask(head("GET /x")), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http, ABodyInPiecesHasALimitToo) {
  std::string text = head("POST /x", "Transfer-Encoding: chunked\r\n");
  for (int i = 0; i < 30; ++i) text += "64\r\n" + std::string(100, 'a') + "\r\n";
  EXPECT_THAT(ask(text + "0\r\n\r\n"), StartsWith("HTTP/1.1 413"));
}

TEST_F(Http, StreamsWhatIsWritten) {
  const std::string all = ask(head("GET /stream"));
  EXPECT_THAT(all, HasSubstr("text/event-stream"));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(all, HasSubstr("data: " + std::to_string(i) + "\n\n"));
}

TEST_F(Http, NoticesClientsThatDisconnect) {
  streams = 1;  // the next one has no end
  Socket streaming(server.port()), waiting(server.port());
  streaming.send(head("GET /stream"));
  waiting.send(head("GET /never"));
  streaming.receive("data: 3");
  streaming.close();
  waiting.close();
  for (int i = 0; i < kPatience && left < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(left, 2);
}

class ImpatientHttp : public Http {
 protected:
  ImpatientHttp() : Http(std::chrono::seconds(1)) {}
};

TEST_F(ImpatientHttp, EndsRequestsThatNeverEndAndServesOthersMeanwhile) {
  std::vector<std::unique_ptr<Socket>> slow;
  for (int i = 0; i < 100; ++i) {
    slow.push_back(std::make_unique<Socket>(server.port()));
    slow.back()->send("POST /x HTTP/1.1\r\nHost: a\r\n");
  }
  std::string other;  // asked again: a machine that stalls may make this one slow, too
  for (int i = 0; i < 100 && other.empty(); ++i) other = ask(head("GET /x"));
  EXPECT_THAT(other, StartsWith("HTTP/1.1 200"));
  for (auto& s : slow) {
    s->send("X: ");
    s->receive();  // returns when the server closes
  }
  for (int i = 0; i < kPatience && server.connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server.connections(), 0u);
}

// The time for a request does not count the wait for it.
TEST_F(ImpatientHttp, AConnectionMayWaitForItsNextRequest) {
  Socket s(server.port());
  for (const char* body : {"#0", "#1"}) {
    s.send(std::string("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n") + body);
    EXPECT_THAT(s.receive(std::string("POST /x a ") + body), StartsWith("HTTP/1.1 200"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  }
  s.send("POST /x HTTP/1.1\r\n");  // the rest never comes
  s.receive();                     // returns when the server closes
}

TEST(HttpServer, ClosesIdleConnections) {
  HttpOptions options;
  options.request_time = std::chrono::seconds(1000);
  options.idle_time = std::chrono::seconds(1);
  HttpServer server(
      options, [](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) { reply->send({}); },
      [](int status, const std::string&) { return HttpResponse{.status = status}; });
  Socket s(server.port());
  s.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(s.receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  s.receive();  // returns when the server closes
}

// The answers are larger than the buffers of a socket, so the server still holds most of each when it ends.
TEST(HttpServer, SendsTheRestOfCompleteAnswersBeforeItEnds) {
  const std::string body(std::size_t{32} << 20, 'a');
  HttpOptions options;
  options.closing_time = std::chrono::seconds(1000);
  options.unread_bytes = 2 * body.size();
  auto server = std::make_unique<HttpServer>(
      options,
      [&](const HttpRequest& r, const std::shared_ptr<HttpReply>& reply) {
        if (r.path == "/whole") return reply->send({.body = body});
        reply->begin({});
        reply->write(body);
        reply->finish();
      },
      [](int status, const std::string&) { return HttpResponse{.status = status}; });
  Socket whole(server->port()), streamed(server->port());
  whole.send("GET /whole HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  streamed.send("GET /streamed HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(whole.receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(streamed.receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  std::thread end([&] { server.reset(); });
  const std::string rest = whole.receive(), pieces = streamed.receive();
  end.join();
  // One read of receive() returned the headers with up to 4096 bytes of the body.
  EXPECT_GT(std::ranges::count(rest, 'a'), std::ssize(body) - 4096);
  EXPECT_GT(std::ranges::count(pieces, 'a'), std::ssize(body) - 4096);
  EXPECT_TRUE(pieces.ends_with("\r\n0\r\n\r\n"));
}

TEST(HttpServer, EndsWhereAClientDoesNotRead) {
  HttpOptions options;
  options.closing_time = std::chrono::seconds(0);
  auto server = std::make_unique<HttpServer>(
      options,
      [](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
        reply->send({.body = std::string(std::size_t{32} << 20, 'a')});
      },
      [](int status, const std::string&) { return HttpResponse{.status = status}; });
  Socket s(server->port());
  s.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(s.receive("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  server.reset();
  EXPECT_LT(s.receive().size(), std::size_t{32} << 20);
}

}  // namespace
}  // namespace dml
