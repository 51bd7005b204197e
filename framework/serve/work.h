// The work of one HTTP request: engine requests, and an object that turns their events into the answer.
#pragma once

#include <exception>
#include <vector>

#include "generate/engine.h"

namespace dml {

/// Created by the threads that parse requests, then used by the engine's thread alone.
class Work {
 public:
  virtual ~Work() = default;
  /// The engine requests. Called once, when the work begins.
  virtual std::vector<EngineRequest> take_requests() = 0;
  /// Handles an event of request i; false: no more of its events are wanted.
  virtual bool on_event(std::size_t i, const EngineEvent& event) = 0;
  /// The client has left.
  virtual bool gone() const = 0;
  /// The work failed; no more events will come.
  virtual void fail(const std::exception& why) = 0;
  /// The server is closing: completes the answer with what has been generated.
  virtual void cut_off() = 0;
};

}  // namespace dml
