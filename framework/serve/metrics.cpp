#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "core/memory_limits.h"

namespace dml {

Metrics::Metrics(std::string model)
    : first_token_{{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}, {}},
      between_tokens_{{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}, {}},
      whole_{{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}, {}},
      writing_{whole_},
      prompt_lengths_{{1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}, {}},
      lengths_{prompt_lengths_} {
  for (char& c : model)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  label_ = "model_name=\"" + model + "\"";
  for (Histogram* h : {&first_token_, &between_tokens_, &whole_, &writing_, &prompt_lengths_, &lengths_})
    h->counts.assign(h->bounds.size() + 1, 0);
}

void Metrics::Histogram::add(double x) {
  ++counts[static_cast<std::size_t>(std::ranges::lower_bound(bounds, x) - bounds.begin())];
  sum += x;
  ++count;
}

void Metrics::set_load(std::size_t running, std::size_t waiting, double cache_usage) {
  const std::lock_guard lock(mutex_);
  running_ = running, waiting_ = waiting, cache_usage_ = cache_usage;
}
void Metrics::read(std::int64_t cached) {
  const std::lock_guard lock(mutex_);
  cached_tokens_ += cached;
}
void Metrics::prompt(std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += tokens;
}
void Metrics::token(double seconds, bool first) {
  const std::lock_guard lock(mutex_);
  ++generated_;
  (first ? first_token_ : between_tokens_).add(seconds);
}
void Metrics::ended(const Ended& r) {
  const std::lock_guard lock(mutex_);
  ++(r.by_length ? by_length_ : by_stop_);
  whole_.add(r.seconds);
  writing_.add(r.writing_seconds);
  prompt_lengths_.add(static_cast<double>(r.prompt));
  lengths_.add(static_cast<double>(r.generated));
}
void Metrics::left() {
  const std::lock_guard lock(mutex_);
  ++left_;
}
void Metrics::answered(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++answered_[{path, status}];
}

void Metrics::write(std::string& out, const std::string& name, const std::string& help, const Histogram& h,
                    const std::string& label) {
  out += fmt::format("# HELP dml_{0} {1}\n# TYPE dml_{0} histogram\n", name, help);
  std::int64_t below = 0;
  for (std::size_t i = 0; i < h.bounds.size(); ++i)
    out += fmt::format("dml_{}_bucket{{{},le=\"{}\"}} {}\n", name, label, h.bounds[i], below += h.counts[i]);
  out += fmt::format("dml_{0}_bucket{{{1},le=\"+Inf\"}} {2}\ndml_{0}_sum{{{1}}} {3}\ndml_{0}_count{{{1}}} {2}\n", name,
                     label, h.count, h.sum);
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  auto one = [&](const char* name, const char* type, const char* help, auto value) {
    out += fmt::format("# HELP dml_{0} {1}\n# TYPE dml_{0} {2}\ndml_{0}{{{3}}} {4}\n", name, help, type, label_, value);
  };
  one("num_requests_running", "gauge", "Requests under way.", running_);
  one("num_requests_waiting", "gauge", "Requests that wait for a place.", waiting_);
  one("kv_cache_usage_perc", "gauge", "Share of the key-value cache that requests under way hold, 0 to 1.",
      cache_usage_);
  one("prompt_tokens_total", "counter", "Tokens of prompts.", prompt_tokens_);
  one("prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", prompt_tokens_);
  one("prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", cached_tokens_);
  one("generation_tokens_total", "counter", "Tokens generated.", generated_);
  one("requests_left_total", "counter", "Requests canceled because the client disconnected.", left_);
  out += "# HELP dml_request_success_total Answers, by what ended them.\n# TYPE dml_request_success_total counter\n";
  out += fmt::format("dml_request_success_total{{{},finished_reason=\"stop\"}} {}\n", label_, by_stop_);
  out += fmt::format("dml_request_success_total{{{},finished_reason=\"length\"}} {}\n", label_, by_length_);
  write(out, "time_to_first_token_seconds", "From request to first token.", first_token_, label_);
  write(out, "inter_token_latency_seconds", "Between tokens of an answer.", between_tokens_, label_);
  write(out, "e2e_request_latency_seconds", "From request to the end of its answer.", whole_, label_);
  write(out, "request_decode_time_seconds", "From the first token of an answer to its end.", writing_, label_);
  write(out, "request_prompt_tokens", "Tokens of a prompt.", prompt_lengths_, label_);
  write(out, "request_generation_tokens", "Tokens of an answer.", lengths_, label_);
  out += fmt::format(
      "# HELP process_resident_memory_bytes Memory of the process.\n# TYPE process_resident_memory_bytes gauge\n"
      "process_resident_memory_bytes {}\n"
      "# HELP process_cpu_seconds_total Processor time of the process.\n# TYPE process_cpu_seconds_total counter\n"
      "process_cpu_seconds_total {:.2f}\n",
      memory_use().now, static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  out += "# HELP dml_http_requests_total HTTP requests.\n# TYPE dml_http_requests_total counter\n";
  for (auto& [key, count] : answered_)
    out += fmt::format("dml_http_requests_total{{handler=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  return out;
}

}  // namespace dml
