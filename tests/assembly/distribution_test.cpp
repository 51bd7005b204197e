#include "assembly/distribution.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

// A rank of several, `local` of them on its host; it never communicates.
class Place : public Comm {
 public:
  Place(int size, int local) : size_(size), local_(local) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return local_; }
  std::string host() const override { return "here"; }
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>>, std::vector<std::span<std::byte>>,
                                    Operation) override {
    return nullptr;
  }
  void abort(int code) override { std::exit(code); }

 private:
  int size_, local_;
};

TEST(Distribution, IsChosenByWhatIsTrainedAndWhere) {
  Recipe full, lora, asked;
  lora.adapter.adapter = AdapterKind::lora;
  asked.distribution.distribution = "zero3";
  EXPECT_EQ(strategy_name(full, Place(1, 1)), "none");
  EXPECT_EQ(strategy_name(full, Place(4, 4)), "zero1");
  EXPECT_EQ(strategy_name(full, Place(4, 2)), "ddp");
  EXPECT_EQ(strategy_name(lora, Place(4, 4)), "ddp");
  EXPECT_EQ(strategy_name(asked, Place(4, 4)), "zero3");
}

}  // namespace
}  // namespace dml
