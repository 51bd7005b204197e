// Warnings at the end of a run on preferences or rewards, from the values that its objective logs: the chosen answers
// became less likely, the model diverged far from the reference, or completions only became longer.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "train/observer.h"

namespace dml {

class PreferenceWarnings : public Observer {
 public:
  Action on_step(const StepMetrics& metrics) override;
  void on_end(const RunEnd& end) override;
  /// The warnings; empty before enough steps were seen.
  std::vector<std::string> warnings() const;

 private:
  enum Value : std::size_t { kChosen, kRejected, kMargin, kLength, kCut, kEqual, kValues };
  using Values = std::array<double, kValues>;  // NaN where a step has none
  std::vector<Values> first_;                  // of the first steps seen
  std::deque<Values> last_;                    // of the last steps seen
  std::int64_t seen_ = 0;
};

}  // namespace dml
