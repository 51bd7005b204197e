// The engine behind a queue: one thread owns the models; other threads submit work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "generate/engine.h"
#include "serve/metrics.h"
#include "serve/work.h"

namespace dml {

class Service {
 public:
  /// `queue`: maximum number of works that wait in addition to one for each slot.
  Service(
      std::vector<EngineModel> models, const EngineOptions& options, std::size_t queue, Metrics& metrics,
      std::function<void()> at_rest = [] {});
  ~Service();

  enum class Admission { taken, full, closing };
  /// `full`: as many works as there are slots and places in the queue have not been answered yet.
  Admission submit(std::shared_ptr<Work> work);
  /// Completes running and queued requests for at most this time, then cancels the rest.
  void finish(std::chrono::seconds most);
  /// The speed of all requests so far. Call only after finish().
  const GenerationSpeed& speed() const { return engine_.speed(); }

 private:
  struct Active {
    std::shared_ptr<Work> work;
    std::map<RequestId, std::size_t> requests;  // still running
  };
  struct Request {  // running in the engine
    Active* owner;
    std::int64_t prompt = 0, generated = 0;  // tokens
    Clock::time_point started = Clock::now(), first_token = {};
    std::optional<Clock::time_point> last_token = {};
  };
  void run();
  void end_all(const std::function<void(Work&)>& tell);
  void begin(std::shared_ptr<Work> work);
  void deliver(const EngineEvent& event);
  void count_open(std::size_t count);  // by the engine's thread alone
  void drop_gone();

  Engine engine_;
  Metrics& metrics_;
  std::size_t most_;  // works that run or wait
  std::function<void()> at_rest_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Work>> arrived_;
  std::size_t open_ = 0;  // works that the engine's thread has taken and not yet answered
  bool idle_ = true, stopping_ = false, cutting_ = false;
  // Used by the engine's thread only.
  std::vector<std::unique_ptr<Active>> active_;
  std::map<RequestId, Request> requests_;
  std::thread thread_;
};

}  // namespace dml
