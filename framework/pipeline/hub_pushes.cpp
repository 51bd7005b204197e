#include "pipeline/hub_pushes.h"

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "hub/push.h"

namespace dml {
namespace {

// Pushes, or warns.
void push(const LogSection& log, const std::string& folder, const std::string& below, std::vector<std::string> include,
          std::string message) {
  PushRequest request;
  request.id = *log.hub_model_id;
  request.revision = log.hub_revision.value_or("main");
  request.folder = folder;
  request.below = below;
  request.include = std::move(include);
  request.message = std::move(message);
  request.make_private = log.hub_private_repo;
  try {
    const Pushed pushed = push_to_hub(HubClient(HubOptions::from_environment()), request);
    log_info("Pushed {} to {}{}", folder, request.id, pushed.url.empty() ? "" : ": " + pushed.url);
  } catch (const std::exception& error) {
    log_warning("{} was not pushed: {}. To push it later: dml push {} {}", folder, error.what(), folder, request.id);
  }
}

class HubPushes : public Observer {
 public:
  explicit HubPushes(const LogSection& log) : log_(log), thread_([this](std::stop_token stop) { work(stop); }) {}

  void on_save(const SavedCheckpoint& saved) override {
    const std::lock_guard guard(mutex_);
    waiting_ = saved;
    wake_.notify_all();
  }
  void on_end(const RunEnd&) override {
    thread_.request_stop();
    thread_.join();
  }

 private:
  void work(std::stop_token stop) {
    std::unique_lock guard(mutex_);
    while (true) {
      wake_.wait(guard, stop, [&] { return waiting_.has_value(); });
      if (!waiting_) return;
      const SavedCheckpoint saved = *std::exchange(waiting_, std::nullopt);
      guard.unlock();
      push_checkpoint(saved);
      guard.lock();
    }
  }

  void push_checkpoint(const SavedCheckpoint& saved) const {
    const std::string message = fmt::format("Training in progress, step {}", saved.step);
    const std::vector<std::string> everything{"*"};
    if (log_.hub_strategy == HubStrategy::all_checkpoints)
      return push(log_, saved.path, std::filesystem::path(saved.path).filename(), everything, message);
    push(log_, saved.path, "", {}, message);
    if (log_.hub_strategy == HubStrategy::checkpoint) push(log_, saved.path, "last-checkpoint", everything, message);
  }

  const LogSection log_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<SavedCheckpoint> waiting_;
  std::jthread thread_;  // last member: joined before the members that it reads are destroyed
};

}  // namespace

std::unique_ptr<Observer> make_hub_pushes(const Recipe& recipe) { return std::make_unique<HubPushes>(recipe.log); }

void push_result(const Recipe& recipe) {
  if (recipe.log.hub_model_id) push(recipe.log, recipe.train.output_dir, "", {}, "End of training");
}

void require_hub_token(const Recipe& recipe) {
  if (!recipe.log.hub_model_id) return;
  const HubOptions options = HubOptions::from_environment();
  if (options.offline) return log_warning("hub_model_id: nothing is pushed, since HF_HUB_OFFLINE is set");
  if (options.token.empty())
    throw UserError(
        "hub_model_id: a push needs a token with write access: set HF_TOKEN, or log in with `hf auth login`")
        .about("hub_model_id");
}

}  // namespace dml
