#include "prompt/chat_mask.h"

#include <algorithm>
#include <utility>

namespace dml {
namespace {

using jinja::Run;

constexpr std::string_view kSpaces = " \t\r\n";

/// Adjacent spans of one turn, without another turn's in between.
struct TurnSpan {
  int turn = -1;
  std::vector<Run> spans;
  std::size_t begin() const { return spans.front().begin; }
  std::size_t end() const { return spans.back().end; }
};

struct End {
  std::size_t begin = 0, end = 0;
  bool eos = false, eot = false;
  float weight = 1;  // weight of the turn that it ends
};

class Masker {
 public:
  Masker(const jinja::RenderResult& r, const Conversation& c, const EndTokens& ends,
         const std::string& generation_prompt)
      : r_(r), c_(c), ends_(ends), prompt_(generation_prompt), learn_(r.text.size(), 0) {}

  std::vector<Segment::Span> run() {
    gather();
    for (std::size_t i = 0; i < turn_spans_.size(); ++i) {
      const std::size_t before = i == 0 ? 0 : std::max(turn_spans_[i - 1].end(), behind_);
      turn(turn_spans_[i], before, i + 1 < turn_spans_.size() ? turn_spans_[i + 1].begin() : r_.text.size());
    }
    for (const End& e : {last_eos_, last_eot_})
      if (e.end > 0) set(e.begin, e.end, e.weight);
    return spans();
  }

 private:
  const Source& source(const Run& run) const { return c_.sources[run.mark - 1]; }
  void set(std::size_t begin, std::size_t end, float weight) {
    std::fill(learn_.begin() + static_cast<std::ptrdiff_t>(begin), learn_.begin() + static_cast<std::ptrdiff_t>(end),
              weight);
  }

  void gather() {
    for (const Run& run : r_.spans) {
      if (!source(run).spoken) continue;
      if (turn_spans_.empty() || turn_spans_.back().turn != source(run).turn)
        turn_spans_.push_back({source(run).turn, {}});
      turn_spans_.back().spans.push_back(run);
    }
  }

  void turn(const TurnSpan& s, std::size_t before, std::size_t next) {
    const Turn& t = c_.turns[static_cast<std::size_t>(s.turn)];
    std::vector<End> ends = ends_behind(s.end(), next);
    std::size_t end = s.end();
    if (t.calls_tools && ends.empty())
      if (const std::size_t at = first_end(s.end(), next); at < next) ends = ends_behind(end = at, next);
    if (t.trained) {
      std::size_t begin = s.begin();
      bool inner = t.calls_tools;
      for (std::size_t k = 0; k + 1 < s.spans.size(); ++k) inner |= s.spans[k].end < s.spans[k + 1].begin;
      if (inner) begin = behind_generation_prompt(before, begin);
      widen_to_generation(begin, end, before, next);
      set(begin, end, t.weight);
      // a masked range includes the text up to the next range
      for (std::size_t k = 0; k < s.spans.size(); ++k)
        if (!source(s.spans[k]).trained)
          set(k == 0 ? begin : s.spans[k - 1].end, k + 1 < s.spans.size() ? s.spans[k + 1].begin : s.spans[k].end, 0);
    }
    for (End& e : ends) {
      e.weight = t.trained ? t.weight : 1;
      mark_end(e, t.trained);
    }
    behind_ = ends.empty() ? end : ends.back().end;
  }

  void widen_to_generation(std::size_t& begin, std::size_t& end, std::size_t before, std::size_t next) const {
    auto range = std::upper_bound(r_.generation.begin(), r_.generation.end(), begin,
                                  [](std::size_t at, auto& g) { return at < g.second; });
    if (range == r_.generation.end() || range->first > begin) return;
    begin = std::max(range->first, before);
    end = std::max(end, std::min(range->second, next));
  }

  void mark_end(const End& e, bool turn_trained) {
    const auto decide = [&](TrainOnEnd policy, End& last) {
      if (policy == TrainOnEnd::last && turn_trained) last = e;
      return policy == TrainOnEnd::all || (policy == TrainOnEnd::turn && turn_trained);
    };
    bool trained = false;
    if (e.eos) trained |= decide(ends_.train_on_eos, last_eos_);
    if (e.eot) trained |= decide(ends_.train_on_eot, last_eot_);
    set(e.begin, e.end, trained ? e.weight : 0);
  }

  /// The longest end token that starts at `at`.
  End end_at(std::size_t at) const {
    End e;
    const auto rest = std::string_view(r_.text).substr(at);
    auto look = [&](const std::string& token, bool eos) {
      if (token.empty() || !rest.starts_with(token) || at + token.size() < e.end) return;
      if (at + token.size() > e.end) e = {at, at + token.size(), false, false};
      (eos ? e.eos : e.eot) = true;
    };
    look(ends_.eos, true);
    for (auto& token : ends_.eot) look(token, false);
    return e;
  }

  /// The first EOS and the first end-of-turn token after a turn, if only whitespace precedes them.
  std::vector<End> ends_behind(std::size_t at, std::size_t next) const {
    std::vector<End> out;
    bool eos = false, eot = false;
    for (;;) {
      at = std::min(r_.text.find_first_not_of(kSpaces, at), next);
      if (at >= next) return out;
      const End e = end_at(at);
      if (e.end == 0 || ((!e.eos || eos) && (!e.eot || eot))) return out;
      eos |= e.eos;
      eot |= e.eot;
      out.push_back(e);
      at = e.end;
    }
  }

  std::size_t first_end(std::size_t at, std::size_t next) const {
    for (; at < next; ++at)
      if (end_at(at).end > 0) return at;
    return next;
  }

  /// The end of the generation prompt, or of a prefix of it; `begin` if it is absent. A prefix counts up to its last
  /// complete tag or line.
  std::size_t behind_generation_prompt(std::size_t before, std::size_t begin) const {
    std::size_t best = 0, best_at = begin;
    for (std::size_t at = before; !prompt_.empty() && at < begin; ++at) {
      std::size_t n = 0;
      while (n < prompt_.size() && at + n < begin && r_.text[at + n] == prompt_[n]) ++n;
      if (n < prompt_.size()) n = std::string_view(prompt_).substr(0, n).find_last_of("\n>]") + 1;  // npos + 1 is 0
      if (n >= best && n > 0) best = n, best_at = at + n;
    }
    return best_at;
  }

  std::vector<Segment::Span> spans() const {
    std::vector<Segment::Span> out;
    auto put = [&](std::size_t begin, std::size_t end, bool markup) {
      while (begin < end) {
        std::size_t to = begin;
        while (to < end && learn_[to] == learn_[begin]) ++to;
        const float weight = learn_[begin];
        const Segment::Span span{to, weight > 0, markup, weight > 0 ? weight : 1};
        if (!out.empty() && out.back().continued_by(span)) out.back().end = to;
        else out.push_back(span);
        begin = to;
      }
    };
    std::size_t at = 0;
    for (const Run& run : r_.spans) {
      put(at, run.begin, true);
      put(run.begin, run.end, false);
      at = run.end;
    }
    put(at, r_.text.size(), true);
    return out;
  }

  const jinja::RenderResult& r_;
  const Conversation& c_;
  const EndTokens& ends_;
  const std::string& prompt_;
  std::vector<float> learn_;  // per byte: weight of trained text, else 0
  std::vector<TurnSpan> turn_spans_;
  std::size_t behind_ = 0;  // end of the previous turn and its end tokens
  End last_eos_, last_eot_;
};

}  // namespace

Segment mask(jinja::RenderResult rendered, const Conversation& conversation, const EndTokens& ends,
             const std::string& generation_prompt) {
  Segment out;
  out.spans = Masker(rendered, conversation, ends, generation_prompt).run();
  out.text = std::move(rendered.text);
  return out;
}

}  // namespace dml
