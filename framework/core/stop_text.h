// Strings that end a streamed text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dml {

/// Ends streamed text at the first stop string. A possible prefix of a stop is held back.
class StopText {
 public:
  /// `stops` must outlive this object.
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}
  explicit StopText(std::vector<std::string>&&) = delete;
  /// Adds text; returns the part that is final.
  std::string next(const std::string& piece);
  /// The text that is still held back when the answer ends.
  std::string finish() { return stopped_ ? "" : std::move(held_); }
  bool stopped() const { return stopped_; }
  /// The stop that was found; "" if none was.
  const std::string& found() const { return found_; }

 private:
  const std::vector<std::string>& stops_;
  std::string held_, found_;
  bool stopped_ = false;
};

}  // namespace dml
