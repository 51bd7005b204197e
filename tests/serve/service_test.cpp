// The queue in front of the engine: how many works it takes, and when it takes more.
#include "serve/service.h"

#include <gtest/gtest.h>

#include <future>

#include "generate/golden_logits.h"

namespace dml {
namespace {

// Two answers of one token each. They begin when `gate` opens, which holds up the engine's thread, and with it all
// later works.
class GatedWork : public Work {
 public:
  explicit GatedWork(std::shared_future<void> gate) : gate_(std::move(gate)) {}
  std::vector<EngineRequest> take_requests() override {
    gate_.wait();
    const EngineRequest one{.prompt = {5, 17, 3}, .max_new_tokens = 1};
    return {one, one};
  }
  bool on_event(std::size_t, const EngineEvent& event) override {
    if (event.kind == EngineEvent::Kind::end && ++answers_ == 2) ended_.set_value();
    return true;
  }
  bool gone() const override { return false; }
  void fail(const std::exception&) override { ended_.set_value(); }
  void cut_off() override { ended_.set_value(); }
  void wait() { ended_.get_future().wait(); }

 private:
  std::shared_future<void> gate_;
  int answers_ = 0;
  std::promise<void> ended_;
};

// Also while none of them has begun, and at once when those before are answered.
TEST(Service, TakesAsManyWorksAsSlotsAndPlacesInTheQueue) {
  GoldenLogits golden(golden_families().front());
  EngineOptions options;
  options.slots = 2;
  options.context = 32;
  options.cache_tokens = 64;
  Metrics metrics("golden");
  Service service({golden.model.get()}, options, 3, metrics);
  for (int round = 0; round < 20; ++round) {
    std::promise<void> gate;
    const std::shared_future<void> open = gate.get_future().share();
    std::vector<std::shared_ptr<GatedWork>> works;
    for (int i = 0; i < 5; ++i) {
      works.push_back(std::make_shared<GatedWork>(open));
      EXPECT_EQ(service.submit(works.back()), Service::Admission::taken) << round << " " << i;
    }
    EXPECT_EQ(service.submit(std::make_shared<GatedWork>(open)), Service::Admission::full) << round;
    gate.set_value();
    for (auto& work : works) work->wait();
  }
  service.finish(std::chrono::seconds(60));
  EXPECT_EQ(service.submit(std::make_shared<GatedWork>(std::shared_future<void>())), Service::Admission::closing);
}

}  // namespace
}  // namespace dml
