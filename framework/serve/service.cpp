#include "serve/service.h"

#include <malloc.h>

#include <algorithm>

#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

constexpr std::chrono::seconds kRest{1};  // idle time before memory is given back

}  // namespace

Service::Service(std::vector<EngineModel> models, const EngineOptions& options, std::size_t queue, Metrics& metrics,
                 std::function<void()> at_rest)
    : engine_(std::move(models), options),
      metrics_(metrics),
      most_(options.slots + queue),
      at_rest_(std::move(at_rest)),
      thread_([this] { run(); }) {}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = cutting_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Service::Admission Service::submit(std::shared_ptr<Work> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Admission::closing;
    if (open_ + arrived_.size() >= most_) return Admission::full;
    arrived_.push_back(std::move(work));
    idle_ = false;
  }
  changed_.notify_all();
  return Admission::taken;
}

void Service::finish(std::chrono::seconds most) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  if (changed_.wait_for(lock, most, [&] { return idle_; })) return;
  cutting_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return idle_; });
}

void Service::run() {
  while (true) {
    std::deque<std::shared_ptr<Work>> fresh;
    bool cut = false;
    {
      std::unique_lock lock(mutex_);
      if (!engine_.busy() && arrived_.empty()) {
        idle_ = true;
        changed_.notify_all();
        const auto wanted = [&] { return !arrived_.empty() || cutting_; };
        if (!changed_.wait_for(lock, kRest, wanted)) {
          lock.unlock();
          at_rest_();
          malloc_trim(0);  // returns freed memory to the system
          lock.lock();
          changed_.wait(lock, wanted);
        }
        if (arrived_.empty()) return;
      }
      fresh.swap(arrived_);
      open_ += fresh.size();
      cut = cutting_;
    }
    for (auto& work : fresh) begin(std::move(work));
    if (cut) {
      end_all([](Work& work) { work.cut_off(); });
      continue;
    }
    drop_gone();
    count_open(active_.size());
    try {
      for (const EngineEvent& event : engine_.step()) deliver(event);
    } catch (const std::exception& e) {  // the engine's state is unknown: all its requests fail
      log_error("{}", e.what());
      end_all([&](Work& work) { work.fail(e); });
    }
    std::erase_if(active_, [](auto& active) { return active->requests.empty(); });
    metrics_.set_load(engine_.running(), engine_.waiting(), engine_.cache_usage());
    count_open(active_.size());
  }
}

void Service::count_open(std::size_t count) {
  const std::lock_guard lock(mutex_);
  open_ = count;
}

void Service::end_all(const std::function<void(Work&)>& tell) {
  for (auto& active : active_) {
    for (auto& [id, i] : active->requests) engine_.cancel(id);
    tell(*active->work);
  }
  active_.clear();
  requests_.clear();
}

void Service::begin(std::shared_ptr<Work> work) {
  auto active = std::make_unique<Active>();
  active->work = std::move(work);
  try {
    std::vector<EngineRequest> requests = active->work->take_requests();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::int64_t tokens = std::ssize(requests[i].prompt);
      const RequestId id = engine_.submit(std::move(requests[i]));
      active->requests[id] = i;
      requests_.emplace(id, Request{.owner = active.get(), .prompt = tokens});
      metrics_.prompt(tokens);
    }
  } catch (const std::exception& e) {
    for (auto& [id, i] : active->requests) {
      engine_.cancel(id);
      requests_.erase(id);
    }
    active->work->fail(e);
    return;
  }
  active_.push_back(std::move(active));
}

void Service::deliver(const EngineEvent& event) {
  auto found = requests_.find(event.id);
  if (found == requests_.end()) return;  // canceled already
  Request& request = found->second;
  Active& active = *request.owner;
  if (event.kind == EngineEvent::Kind::read) metrics_.read(event.cached);
  if (event.kind == EngineEvent::Kind::token) {
    metrics_.token(seconds_since(request.last_token.value_or(request.started)), !request.last_token);
    request.last_token = Clock::now();
    if (++request.generated == 1) request.first_token = *request.last_token;
  }
  const bool ended = event.kind == EngineEvent::Kind::end;
  if (ended && active.requests.size() == 1) count_open(open_ - 1);  // before the client has the answer and asks again
  const bool more = active.work->on_event(active.requests.at(event.id), event);
  if (more && !ended) return;
  if (!ended) engine_.cancel(event.id);
  metrics_.ended({.seconds = seconds_since(request.started),
                  .writing_seconds = request.generated > 0 ? seconds_since(request.first_token) : 0,
                  .prompt = request.prompt,
                  .generated = request.generated,
                  .by_length = ended && event.reason == StopReason::length});
  active.requests.erase(event.id);
  requests_.erase(found);
  if (!ended && active.requests.empty()) count_open(open_ - 1);
}

void Service::drop_gone() {
  for (auto& active : active_) {
    if (!active->work->gone()) continue;
    for (auto& [id, i] : active->requests) {
      engine_.cancel(id);
      requests_.erase(id);
      metrics_.left();
    }
    active->requests.clear();
  }
  std::erase_if(active_, [](auto& active) { return active->requests.empty(); });
}

}  // namespace dml
