#include "serve/service.h"

#include <algorithm>

#include "core/error.h"
#include "core/log.h"

namespace dml {

Service::Service(std::vector<EngineModel> models, const EngineOptions& options, std::size_t queue, Metrics& metrics)
    : engine_(std::move(models), options), metrics_(metrics), queue_(queue), thread_([this] { run(); }) {}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = cutting_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Service::submit(std::shared_ptr<Work> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || waiting_ + arrived_.size() >= queue_) return false;
    arrived_.push_back(std::move(work));
    idle_ = false;
  }
  changed_.notify_all();
  return true;
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
        changed_.wait(lock, [&] { return !arrived_.empty() || cutting_; });
        if (arrived_.empty()) return;
      }
      fresh.swap(arrived_);
      cut = cutting_;
    }
    for (auto& work : fresh) begin(std::move(work));
    if (cut) {
      for (auto& active : active_) {
        for (auto& [id, i] : active->requests) engine_.cancel(id);
        active->work->cut_off();
      }
      active_.clear();
      owners_.clear();
      continue;
    }
    drop_gone();
    try {
      for (const EngineEvent& event : engine_.step()) deliver(event);
    } catch (const std::exception& e) {  // nothing of the engine can be relied on for these
      log_error("{}", e.what());
      for (auto& active : active_) {
        for (auto& [id, i] : active->requests) engine_.cancel(id);
        active->work->fail(e);
      }
      active_.clear();
      owners_.clear();
    }
    std::erase_if(active_, [](auto& active) { return active->requests.empty(); });
    metrics_.set_load(engine_.running(), engine_.waiting(), engine_.cache_usage());
    const std::lock_guard lock(mutex_);
    waiting_ = engine_.waiting();
  }
}

void Service::begin(std::shared_ptr<Work> work) {
  auto active = std::make_unique<Active>();
  active->work = std::move(work);
  std::vector<EngineRequest> requests = active->work->take_requests();
  try {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const RequestId id = engine_.submit(std::move(requests[i]));
      active->requests[id] = i;
      owners_[id] = active.get();
      started_[id] = Clock::now();
    }
  } catch (const Error& e) {
    for (auto& [id, i] : active->requests) {
      engine_.cancel(id);
      owners_.erase(id);
    }
    active->work->fail(e);
    return;
  }
  active_.push_back(std::move(active));
}

void Service::deliver(const EngineEvent& event) {
  auto owner = owners_.find(event.id);
  if (owner == owners_.end()) return;  // nobody wants it any more
  Active& active = *owner->second;
  if (event.kind == EngineEvent::Kind::read) metrics_.read(event.cached);
  if (event.kind == EngineEvent::Kind::token) {
    auto [last, first] = last_token_.try_emplace(event.id, Clock::now());
    metrics_.token(seconds_since(first ? started_[event.id] : last->second), first);
    last->second = Clock::now();
  }
  const bool more = active.work->on_event(active.requests.at(event.id), event);
  if (more && event.kind != EngineEvent::Kind::end) return;
  if (event.kind != EngineEvent::Kind::end) engine_.cancel(event.id);
  metrics_.ended(seconds_since(started_[event.id]), event.kind == EngineEvent::Kind::end && event.reason == StopReason::length);
  started_.erase(event.id);
  last_token_.erase(event.id);
  active.requests.erase(event.id);
  owners_.erase(owner);
}

void Service::drop_gone() {
  for (auto& active : active_) {
    if (!active->work->gone()) continue;
    for (auto& [id, i] : active->requests) {
      engine_.cancel(id);
      owners_.erase(id);
      started_.erase(id);
      last_token_.erase(id);
      metrics_.left();
    }
    active->requests.clear();
  }
  std::erase_if(active_, [](auto& active) { return active->requests.empty(); });
}

}  // namespace dml
