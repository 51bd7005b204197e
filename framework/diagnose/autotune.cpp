#include "diagnose/autotune.h"

#include <array>
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/json.h"
#include "core/lines.h"
#include "train/progress.h"

namespace dml {
namespace {

constexpr double kMuchSlower = 0.9;  // of the best rate

// The output of a command on both streams.
std::string output_of(const std::vector<std::string>& words) {
  struct Close {
    void operator()(std::FILE* f) const { pclose(f); }
  };
  const std::unique_ptr<std::FILE, Close> pipe(popen((shell_text(words) + " 2>&1").c_str(), "r"));
  if (!pipe) throw IoError(words[0], "cannot be started");
  std::string output;
  std::array<char, 4096> some;
  while (const std::size_t n = std::fread(some.data(), 1, some.size(), pipe.get())) output.append(some.data(), n);
  return output;
}

}  // namespace

std::string LayoutRate::text() const {
  if (!problem.empty()) return fmt::format("{}: {}", layout.text(), problem);
  return fmt::format("{}: {} tokens/s", layout.text(), count_text(tokens_per_second));
}

std::vector<std::string> bench_arguments(const std::vector<std::string>& command) {
  if (command.size() < 2 || command[0] != "train")
    throw UserError("launch: --autotune requires a training run, as in: dml launch --autotune train recipe.yml");
  std::vector<std::string> words = command;
  words[0] = "bench";
  take_resume(words);
  words.insert(words.end(), {"--warmup=1", "--steps=2", "--json"});
  return words;
}

LayoutRate rate_from(const RankLayout& layout, const std::string& output) {
  LayoutRate rate{layout};
  for (const auto [number, line] : Lines(output)) {
    if (line.starts_with('{')) {
      rate.tokens_per_second = json_number(parse_json(line, "dml bench"), "tok_s", 0, "dml bench");
      rate.problem.clear();
      return rate;
    }
    if (!line.empty()) rate.problem = line;
  }
  if (rate.problem.empty()) rate.problem = "dml bench printed nothing";
  return rate;
}

LayoutRate fastest_layout(const LaunchRequest& request, const LaunchHost& host, std::int64_t micro_batches,
                          const std::function<void(const LayoutRate&)>& say) {
  LayoutRate best;
  std::string problem;
  int slower = 0;
  for (const RankLayout& layout : layouts_for(host.cores, micro_batches)) {
    LaunchRequest trial = request;
    trial.ranks = layout.ranks;
    trial.threads = layout.threads;
    trial.command = bench_arguments(request.command);
    const LayoutRate rate = rate_from(layout, output_of(launch_line(trial, host)));
    say(rate);
    if (!rate.problem.empty() && problem.empty()) problem = rate.text();
    slower = rate.tokens_per_second < kMuchSlower * best.tokens_per_second ? slower + 1 : 0;
    if (rate.tokens_per_second > best.tokens_per_second) best = rate;
    if (slower == 2) break;
  }
  if (best.tokens_per_second == 0) throw UserError("launch: --autotune: {}", problem);
  return best;
}

}  // namespace dml
