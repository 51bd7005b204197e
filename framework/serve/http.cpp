#include "serve/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "serve/http_exchange.h"
#include "serve/request_fault.h"

namespace dml {
namespace {

// Memory of a connection: its headers, which request_fault() limits, a copy of the cookies in them, and buffers.
constexpr std::size_t kConnectionBytes = 128 << 10;

struct Held {  // the library's reference to a request
  std::shared_ptr<Exchange> exchange;
};

ssize_t read_stream(void* held, std::uint64_t, char* to, std::size_t most) {
  Exchange& e = *static_cast<Held*>(held)->exchange;
  const std::lock_guard lock(e.mutex);
  if (e.disconnected) return MHD_CONTENT_READER_END_WITH_ERROR;
  const std::size_t count = std::min(most, e.unread.size() - e.read);
  if (count > 0) {
    std::memcpy(to, e.unread.data() + e.read, count);
    e.read += count;
    if (e.read == e.unread.size()) e.unread.clear(), e.read = 0;
    return static_cast<ssize_t>(count);
  }
  if (e.finished) return MHD_CONTENT_READER_END_OF_STREAM;
  e.suspended = true;
  MHD_suspend_connection(e.connection);
  return 0;
}

// Calls our code for the library, through which no exception may pass (memory may run out): the connection is closed.
template <class Call>
MHD_Result guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return MHD_NO;
  }
}

void release(void* held) { delete static_cast<Held*>(held); }

}  // namespace

void Exchange::resume() { MHD_resume_connection(connection); }

struct HttpServer::State {
  HttpOptions options;
  Handler handler;
  Refusal refusal;
  std::uint16_t port = 0;
  mutable std::mutex mutex;
  std::set<std::shared_ptr<Connection>> connections;
  std::set<std::shared_ptr<Exchange>> exchanges;
  bool stopping = false;
  std::condition_variable stop;
  std::thread sweeper;
  struct StopDaemon {
    void operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }
  };
  std::unique_ptr<MHD_Daemon, StopDaemon> daemon;  // last, as its thread uses the other members

  static void on_connection(void* state, MHD_Connection* c, void** context, MHD_ConnectionNotificationCode code) {
    guarded([&] {
      static_cast<State*>(state)->connection(c, context, code);
      return MHD_YES;
    });
  }
  void connection(MHD_Connection* c, void** context, MHD_ConnectionNotificationCode code) {
    using Pointer = std::shared_ptr<Connection>;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      auto mine = std::make_shared<Connection>();
      if (auto* info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)) mine->socket = info->connect_fd;
      const int yes = 1;
      setsockopt(mine->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      *context = new Pointer(mine);
      const std::lock_guard lock(mutex);
      connections.insert(std::move(mine));
    } else if (auto* mine = static_cast<Pointer*>(*context)) {
      {
        const std::lock_guard lock((*mine)->mutex);
        (*mine)->socket = -1;
      }
      {
        const std::lock_guard lock(mutex);
        connections.erase(*mine);
      }
      delete mine;
      *context = nullptr;
    }
  }

  static MHD_Result on_header(void* to, MHD_ValueKind, const char* key, const char* value) {
    return guarded([&] {
      static_cast<HttpRequest*>(to)->headers.emplace(ascii_lower(key), value ? value : "");
      return MHD_YES;
    });
  }

  static MHD_Result on_request(void* state, MHD_Connection* c, const char* path, const char* method,
                               const char* version, const char* data, std::size_t* size, void** context) {
    return guarded([&] { return static_cast<State*>(state)->request(c, path, method, version, data, size, context); });
  }
  // Called by the library with the first line of a request.
  static void* on_first_line(void*, const char*, MHD_Connection* c) {
    if (const auto state = state_of(c)) state->begin_request();
    return nullptr;
  }
  // The state that on_connection() has made; null if memory had run out.
  static std::shared_ptr<Connection> state_of(MHD_Connection* c) {
    auto* info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info && info->socket_context ? *static_cast<std::shared_ptr<Connection>*>(info->socket_context) : nullptr;
  }
  // Called by the library with the headers, with every part of the body, at its end, and after a resumption.
  MHD_Result request(MHD_Connection* c, const char* path, const char* method, const char* version, const char* data,
                     std::size_t* size, void** context) {
    if (!*context) {
      auto connection_state = state_of(c);
      if (!connection_state) return MHD_NO;
      auto e = std::make_shared<Exchange>(c, std::move(connection_state), options.unread_bytes);
      e->request.method = method;
      e->request.path = path;
      const int headers = MHD_get_connection_values(c, MHD_HEADER_KIND, nullptr, nullptr);
      MHD_get_connection_values(c, MHD_HEADER_KIND, on_header, &e->request);
      if (std::ssize(e->request.headers) != headers) return MHD_NO;  // memory had run out
      use_origin_form(e->request);
      std::tie(e->refused, e->why) = request_fault(e->request, version, options.body_bytes);
      *context = new Held{e};
      {
        const std::lock_guard lock(mutex);
        exchanges.insert(e);
      }
      if (e->refused == 0) return MHD_YES;
      e->response = refusal(e->refused, e->why);
      return queue(c, e, true);
    }
    const std::shared_ptr<Exchange> exchange = static_cast<Held*>(*context)->exchange;
    Exchange& e = *exchange;
    if (*size > 0) {
      if (e.request.body.size() + *size > options.body_bytes) e.refused = 413;
      else if (e.refused == 0) e.request.body.append(data, *size);
      {
        const std::lock_guard lock(e.state->mutex);
        e.state->received += *size;
      }
      *size = 0;
      return MHD_YES;
    }
    if (e.refused != 0) {
      e.response = refusal(e.refused, "the body is too large");
      return queue(c, exchange, true);
    }
    if (!e.dispatched) {
      e.dispatched = true;
      {
        const std::lock_guard lock(e.state->mutex);
        e.state->receiving = false;
      }
      handler(std::move(e.request), exchange);
    }
    {
      const std::lock_guard lock(e.mutex);
      if (!e.answered) {
        if (e.disconnected) return MHD_NO;
        e.suspended = true;
        MHD_suspend_connection(c);
        return MHD_YES;
      }
    }
    return queue(c, exchange, false);
  }

  // Does not take the exchange's mutex: the library holds the response's lock here, while read_stream() takes the
  // exchange's mutex first. The answer does not change any more.
  static MHD_Result queue(MHD_Connection* c, const std::shared_ptr<Exchange>& exchange, bool close) {
    Exchange& e = *exchange;
    if (e.queued) return MHD_YES;
    e.queued = true;
    MHD_Response* r = nullptr;
    if (e.streams) {
      auto* held = new Held{exchange};
      r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_stream, held, release);
      if (!r) delete held;
    } else {
      r = MHD_create_response_from_buffer(e.response.body.size(), e.response.body.data(), MHD_RESPMEM_MUST_COPY);
    }
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Content-Type", e.response.type.c_str());
    for (const auto& list : {e.headers, e.response.headers})
      for (auto& [name, value] : list) MHD_add_response_header(r, name.c_str(), value.c_str());
    if (close) MHD_add_response_header(r, "Connection", "close");
    const MHD_Result done = MHD_queue_response(c, static_cast<unsigned>(e.response.status), r);
    MHD_destroy_response(r);
    return done;
  }
  static void on_completed(void* state, MHD_Connection*, void** context, MHD_RequestTerminationCode) {
    auto* held = static_cast<Held*>(*context);
    if (!held) return;
    Exchange& e = *held->exchange;
    {
      const std::lock_guard lock(e.mutex);
      e.over = true;
      e.disconnected = true;
    }
    e.state->end_request();
    auto* self = static_cast<State*>(state);
    {
      const std::lock_guard lock(self->mutex);
      self->exchanges.erase(held->exchange);
    }
    delete held;
    *context = nullptr;
  }

  std::vector<std::shared_ptr<Exchange>> open_exchanges() const {
    const std::lock_guard lock(mutex);
    return {exchanges.begin(), exchanges.end()};
  }
  // Whether a complete answer has not been sent to its end.
  bool is_sending() const {
    return std::ranges::any_of(open_exchanges(), [](auto& e) {
      const std::lock_guard lock(e->mutex);
      return e->finished && !e->over && !e->disconnected;
    });
  }

  // Closes connections that exceed their time, and notices clients that have left before their answer is there.
  void sweep() {
    std::vector<std::shared_ptr<Connection>> open;
    {
      const std::lock_guard lock(mutex);
      open.assign(connections.begin(), connections.end());
    }
    const auto now = SteadyClock::now();
    for (auto& c : open) c->close_if_late(options, now);
    for (auto& e : open_exchanges()) {
      const std::lock_guard lock(e->mutex);
      if (!e->suspended || e->over) continue;
      const std::lock_guard socket(e->state->mutex);
      pollfd p{e->state->socket, POLLRDHUP, 0};
      if (e->state->socket >= 0 && ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR))) {
        e->disconnected = true;
        e->wake();
      }
    }
  }
  void sweep_until_stopped() {
    std::unique_lock lock(mutex);
    while (!stop.wait_for(lock, std::chrono::milliseconds(200), [&] { return stopping; })) {
      lock.unlock();
      sweep();
      lock.lock();
    }
  }

  void listen() {
    addrinfo hints{}, *found = nullptr;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    if (const int rc = getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found); rc != 0)
      throw UserError("--host: '{}' is not an address of this machine ({})", options.host, gai_strerror(rc));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (found->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    daemon.reset(MHD_start_daemon(
        flags, options.port, nullptr, nullptr, &State::on_request, this, MHD_OPTION_SOCK_ADDR, found->ai_addr,
        MHD_OPTION_NOTIFY_CONNECTION, &State::on_connection, this, MHD_OPTION_URI_LOG_CALLBACK, &State::on_first_line,
        this, MHD_OPTION_NOTIFY_COMPLETED, &State::on_completed, this, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        kConnectionBytes, MHD_OPTION_CONNECTION_LIMIT, options.connections, MHD_OPTION_CONNECTION_TIMEOUT,
        static_cast<unsigned>(options.idle_time.count()), MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END));
    if (!daemon)
      throw IoError(fmt::format("cannot listen on {}:{}: {}{}", options.host, options.port, std::strerror(errno),
                                errno == EADDRINUSE ? "; --port chooses another one" : ""));
    port = MHD_get_daemon_info(daemon.get(), MHD_DAEMON_INFO_BIND_PORT)->port;
  }
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler, Refusal refusal)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->handler = std::move(handler);
  state_->refusal = std::move(refusal);
  state_->listen();
  state_->sweeper = std::thread([state = state_.get()] { state->sweep_until_stopped(); });
}

HttpServer::~HttpServer() {
  const auto deadline = SteadyClock::now() + state_->options.closing_time;
  while (state_->is_sending() && SteadyClock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->stop.notify_all();
  state_->sweeper.join();
  for (auto& e : state_->open_exchanges()) {
    const std::lock_guard lock(e->mutex);
    e->disconnected = true;
    e->wake();
  }
  state_->daemon.reset();
}

std::uint16_t HttpServer::port() const { return state_->port; }

void HttpServer::stop_listening() {
  if (const MHD_socket socket = MHD_quiesce_daemon(state_->daemon.get()); socket >= 0) ::close(socket);
}

std::size_t HttpServer::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connections.size();
}

}  // namespace dml
