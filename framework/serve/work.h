// The work of one HTTP request: engine requests, and an object that turns their events into the answer.
#pragma once

#include <exception>
#include <vector>

#include "generate/engine.h"

namespace dml {

/// Made by the threads that read requests, used by the engine's thread alone after that.
class Work {
 public:
  virtual ~Work() = default;
  /// Taken once, when the work begins.
  virtual std::vector<EngineRequest> take_requests() = 0;
  /// An event of request number i; false when no more of it are wanted.
  virtual bool on_event(std::size_t i, const EngineEvent& event) = 0;
  /// The client has left.
  virtual bool gone() const = 0;
  /// The work cannot be done, or not to its end; no more events will come.
  virtual void fail(const std::exception& why) = 0;
  /// The server is closing: what is there of the answer must do.
  virtual void cut_off() = 0;
};

}  // namespace dml
