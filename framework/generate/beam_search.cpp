#include "generate/beam_search.h"

#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "core/error.h"
#include "core/interruption.h"
#include "generate/beam_caches.h"
#include "kernels/range_ops.h"

namespace dml {
namespace {

struct Beam {
  double sum = 0;               // log p of its text
  std::vector<float> logprobs;  // of each token
};
// A beam with one more token.
struct Candidate {
  double sum = 0;
  std::size_t beam = 0;
  Token token = 0;
  float logprob = 0;
};
struct Finished {
  double score = 0;
  Generated text;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.sum != b.sum) return a.sum > b.sum;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

class Search {
 public:
  Search(CausalLm& model, const std::vector<Token>& prompt, const GenerationOptions& options)
      : model_(model),
        options_(options),
        width_(static_cast<std::size_t>(options.beams)),
        prompt_(prompt.size()),
        longest_(options.longest_answer(prompt.size())),
        caches_(model, prompt, width_, options),
        beams_(width_),
        live_{0} {
    caches_.read(live_);
  }

  /// One token more for every living beam; false when the search is over.
  bool step() {
    check_interruption();
    std::vector<Candidate> candidates = best_candidates();
    std::vector<Candidate> next;
    const double penalty = std::pow(static_cast<double>(length() + 1), options_.length_penalty);
    for (std::size_t rank = 0; rank < candidates.size() && next.size() < width_; ++rank) {
      const Candidate& c = candidates[rank];
      if (std::ranges::find(options_.stop_tokens, c.token) == options_.stop_tokens.end()) next.push_back(c);
      else if (rank < width_) finish(c.beam, c.sum / penalty, StopReason::token);
    }
    bool over = finished_.size() == width_ && finished_.back().score >= candidates[0].sum / penalty;
    if (over || next.empty()) return false;
    advance(next);
    if (length() == longest_) {
      for (std::size_t i : live_) finish(i, beams_[i].sum / penalty, StopReason::length);
      return false;
    }
    caches_.read(live_);
    return true;
  }

  Generated best() { return std::move(finished_.front().text); }
  std::int64_t living() const { return std::ssize(live_); }

 private:
  std::int64_t length() const { return std::ssize(beams_[live_[0]].logprobs); }

  std::vector<Candidate> best_candidates() {
    // So many that beams are left for the next step even where every stop token of every beam is among them.
    const std::size_t most = width_ * (1 + std::max<std::size_t>(1, options_.stop_tokens.size()));
    std::vector<Candidate> all, row;
    for (std::size_t r = 0; r < live_.size(); ++r) {
      std::span<const float> logits = caches_.logits(r);
      auto [top, sum] = kernels::row_stats(logits);
      const double total = top + std::log(sum), before = beams_[live_[r]].sum;
      if (!std::isfinite(total)) throw Error(ExitCode::diverged, "the model's logits are NaN");
      row.clear();
      for (std::size_t v = 0; v < logits.size(); ++v) {
        double logprob = logits[v] - total;
        row.push_back({before + logprob, live_[r], static_cast<Token>(v), static_cast<float>(logprob)});
      }
      auto middle = row.begin() + static_cast<std::ptrdiff_t>(std::min(most, row.size()));
      std::partial_sort(row.begin(), middle, row.end(), better);
      all.insert(all.end(), row.begin(), middle);
    }
    std::ranges::sort(all, better);
    if (all.size() > most) all.resize(most);
    return all;
  }

  void finish(std::size_t beam, double score, StopReason reason) {
    const auto& text = caches_.sequences[beam].text;
    Finished done{score,
                  {{text.begin() + static_cast<std::ptrdiff_t>(prompt_), text.end()}, beams_[beam].logprobs, reason}};
    auto place = std::ranges::find_if(finished_, [&](auto& f) { return f.score < score; });
    finished_.insert(place, std::move(done));
    if (finished_.size() > width_) finished_.pop_back();
  }

  // The first child of a beam takes its place, another one that of a beam without children, whose cache becomes a copy.
  void advance(const std::vector<Candidate>& next) {
    std::vector<std::size_t> place(next.size()), free;
    std::vector<bool> taken(width_, false);
    for (std::size_t i = 0; i < next.size(); ++i) {
      bool first = !taken[next[i].beam];
      taken[next[i].beam] = true;
      place[i] = first ? next[i].beam : width_;
    }
    for (std::size_t slot = 0; slot < width_; ++slot)
      if (!taken[slot]) free.push_back(slot);
    live_.clear();
    for (std::size_t i = 0; i < next.size(); ++i) {  // copies first: their parents still are what they were
      if (place[i] != width_) continue;
      place[i] = free.back();
      free.pop_back();
      BeamCaches::Sequence &from = caches_.sequences[next[i].beam], &to = caches_.sequences[place[i]];
      const std::int64_t known = to.cache.length();
      const bool expired = model_.cache_expires(known, from.cache.length());
      to.cache.copy(from.cache, expired ? 0 : std::min<std::int64_t>(known, static_cast<std::int64_t>(prompt_)));
      to.text = from.text;
      beams_[place[i]] = beams_[next[i].beam];
    }
    for (std::size_t i = 0; i < next.size(); ++i) {
      caches_.sequences[place[i]].text.push_back(next[i].token);
      beams_[place[i]].sum = next[i].sum;
      beams_[place[i]].logprobs.push_back(next[i].logprob);
      live_.push_back(place[i]);
    }
  }

  const CausalLm& model_;
  const GenerationOptions& options_;
  std::size_t width_, prompt_;
  std::int64_t longest_;  // answer
  BeamCaches caches_;
  std::vector<Beam> beams_;
  std::vector<std::size_t> live_;   // beams that are continued; row r of the logits is that of live_[r]
  std::vector<Finished> finished_;  // best first
};

}  // namespace

Generated beam_search(CausalLm& model, const std::vector<Token>& prompt, const GenerationOptions& options,
                      GenerationSpeed& speed) {
  auto start = Clock::now();
  Search search(model, prompt, options);
  speed.prompt_tokens += std::ssize(prompt);
  speed.prompt_seconds += seconds_since(start);
  start = Clock::now();
  while (search.step()) speed.new_tokens += search.living();
  speed.new_seconds += seconds_since(start);
  return search.best();
}

}  // namespace dml
