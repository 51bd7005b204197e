// The state of a connection, and of a request with its answer; shared by the library's thread, the threads that answer,
// and the check of deadlines.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http.h"

struct MHD_Connection;

namespace dml {

using SteadyClock = std::chrono::steady_clock;

struct Connection {
  std::mutex mutex;
  int socket = -1;
  SteadyClock::time_point since = SteadyClock::now();  // start of the connection, the request, or the wait for it
  bool receiving = true;                               // the request is incomplete
  bool idle = false;                                   // nothing of it has come since the previous answer
  std::size_t received = 0;                            // bytes of its body
  bool ended = false;                                  // the client had closed its side at the last check of deadlines
  bool late = false;                                   // the deadline had passed at the last check

  /// The first line of a request is there.
  void begin_request();
  /// An answer has been sent, and another request may follow.
  void end_request();
  /// Closes the connection when it exceeds its time, or will never send the rest of a request.
  void close_if_late(const HttpOptions& options, SteadyClock::time_point now);
};

// A request and its answer; referenced by HttpReply's user and by the library.
struct Exchange : HttpReply {
  Exchange(MHD_Connection* c, std::shared_ptr<Connection> connection_state, std::size_t max_unread_bytes)
      : connection(c), state(std::move(connection_state)), max_unread(max_unread_bytes) {}

  std::mutex mutex;
  MHD_Connection* connection;
  std::shared_ptr<Connection> state;
  std::size_t max_unread;
  HttpRequest request;
  int refused = 0;  // status of a rejection before the body arrived; 0: not rejected
  std::string why;
  bool dispatched = false, suspended = false, over = false;
  bool answered = false, streams = false, finished = false, queued = false;
  std::atomic<bool> disconnected{false};
  std::vector<std::pair<std::string, std::string>> headers;  // in addition to those of the response
  HttpResponse response;
  std::string unread;
  std::size_t read = 0;  // bytes of `unread` that were sent

  // Resumes the connection. Call with `mutex` locked.
  void wake() {
    if (!suspended || over) return;
    suspended = false;
    resume();
  }
  void add_header(const std::string& name, const std::string& value) override {
    const std::lock_guard lock(mutex);
    headers.emplace_back(name, value);
  }
  void send(HttpResponse whole) override {
    const std::lock_guard lock(mutex);
    if (answered) return;
    response = std::move(whole);
    answered = finished = true;
    wake();
  }
  void begin(HttpResponse head) override {
    const std::lock_guard lock(mutex);
    if (answered) return;
    response = std::move(head);
    answered = streams = true;
    wake();
  }
  void write(std::string_view piece) override {
    const std::lock_guard lock(mutex);
    if (over || disconnected || finished) return;
    unread.append(piece);
    if (unread.size() - read > max_unread) drop();
    wake();
  }
  void finish() override {
    const std::lock_guard lock(mutex);
    finished = true;
    wake();
  }
  bool gone() const override { return disconnected; }
  void resume();  // in http.cpp
  // Drops the answer because the client has disconnected or reads too slowly. Call with `mutex` locked.
  void drop() {
    disconnected = true;
    if (!over && state->socket >= 0) ::shutdown(state->socket, SHUT_RDWR);
  }
};

}  // namespace dml
