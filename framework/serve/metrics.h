// Counters and histograms of the server in Prometheus' text format 0.0.4. Names are vLLM's with the prefix dml_, so
// that its dashboards can be adapted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace dml {

class Metrics {
 public:
  explicit Metrics(std::string model);

  void set_load(std::size_t running, std::size_t waiting, double cache_usage);
  /// Counts a prompt that was read; `cached`: number of its tokens found in the prefix cache.
  void read(std::int64_t cached);
  void prompt(std::int64_t tokens);
  /// Counts a token: seconds since the previous one, or, for the first, since the request arrived.
  void token(double seconds, bool first);
  struct Ended {
    double seconds = 0, writing_seconds = 0;  // since the request arrived, and since its first token
    std::int64_t prompt = 0, generated = 0;   // tokens
    bool by_length = false;
  };
  void ended(const Ended& request);
  void left();
  void answered(const std::string& path, int status);

  std::string text() const;

 private:
  struct Histogram {
    std::vector<double> bounds;
    std::vector<std::int64_t> counts;  // one more than bounds: the last bucket is unbounded
    double sum = 0;
    std::int64_t count = 0;
    void add(double x);
  };
  static void write(std::string& out, const std::string& name, const std::string& help, const Histogram& h,
                    const std::string& label);

  mutable std::mutex mutex_;
  std::string label_;
  std::size_t running_ = 0, waiting_ = 0;
  double cache_usage_ = 0;
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0, generated_ = 0, by_stop_ = 0, by_length_ = 0, left_ = 0;
  Histogram first_token_, between_tokens_, whole_, writing_, prompt_lengths_, lengths_;
  std::map<std::pair<std::string, int>, std::int64_t> answered_;
};

}  // namespace dml
