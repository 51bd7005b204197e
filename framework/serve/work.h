// The work of one HTTP request: makes engine requests and turns their events into the answer.
#pragma once

#include <exception>
#include <vector>

#include "generate/engine.h"

namespace dml {

/// Created by the threads that parse requests, then used by the engine's thread only.
class Work {
 public:
  virtual ~Work() = default;
  /// The engine requests. Called once, when the work begins.
  virtual std::vector<EngineRequest> take_requests() = 0;
  /// Handles an event of request i; false: the request's remaining events are not needed, it is canceled.
  virtual bool on_event(std::size_t i, const EngineEvent& event) = 0;
  /// Whether the client has disconnected.
  virtual bool gone() const = 0;
  /// Called when the work failed; no more events follow.
  virtual void fail(const std::exception& why) = 0;
  /// Called when the server closes before the answer is complete: ends it with an error.
  virtual void cut_off() = 0;
};

}  // namespace dml
