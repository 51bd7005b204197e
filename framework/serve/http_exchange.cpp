#include "serve/http_exchange.h"

#include <poll.h>
#include <sys/ioctl.h>

namespace dml {
namespace {

constexpr std::size_t kSlowestBody = 1 << 10;  // bytes a second

// Whether the client has closed its side of the connection and everything it sent has been read. An incomplete request
// will then never be complete.
bool has_ended(int socket) {
  pollfd p{socket, POLLRDHUP, 0};
  int unread = 0;
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) &&
         ::ioctl(socket, FIONREAD, &unread) == 0 && unread == 0;
}

}  // namespace

void Connection::begin_request() {
  const std::lock_guard lock(mutex);
  if (std::exchange(idle, false)) since = SteadyClock::now();
}

void Connection::end_request() {
  const std::lock_guard lock(mutex);
  receiving = idle = true;
  received = 0;
  since = SteadyClock::now();
}

void Connection::close_if_late(const HttpOptions& options, SteadyClock::time_point now) {
  const std::lock_guard lock(mutex);
  if (socket < 0 || !receiving) return;
  const auto most = idle ? options.idle_time : options.request_time + std::chrono::seconds(received / kSlowestBody);
  // Each condition must hold at two checks: the library may be reading at this moment, and after a sleep of the machine
  // received data must still be read.
  const bool has_closed = std::exchange(ended, has_ended(socket)) && ended;
  const bool is_late = std::exchange(late, now - since > most) && late;
  if (has_closed || is_late) ::shutdown(socket, SHUT_RDWR);
}

}  // namespace dml
