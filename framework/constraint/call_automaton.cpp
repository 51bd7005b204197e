// Replies that may call tools: any text up to a mark that opens a call, then only valid calls. Reasoning between
// <think> and </think> may be any text.
#include <algorithm>
#include <map>
#include <tuple>

#include "constraint/call_automaton.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr std::string_view kThink = "<think>", kThought = "</think>";

// The length of the longest prefix of `mark` that a text ends with, given that length for the text without its last
// byte.
std::size_t matched_after(std::string_view mark, std::size_t matched, unsigned char byte) {
  const std::string end = std::string(mark.substr(0, matched)) + static_cast<char>(byte);
  for (std::size_t n = std::min(end.size(), mark.size()); n > 0; --n)
    if (std::string_view(end).ends_with(mark.substr(0, n))) return n;
  return 0;
}

class CallAutomaton final : public Automaton {
 public:
  explicit CallAutomaton(CallForm form) : form_(std::move(form)) {
    DML_CHECK(!form_.calls.empty() && !form_.marks.empty());
    for (const CallForm::Call& call : form_.calls)
      if (call.rest->start() == kDead)
        throw UserError("the schema of a tool's parameters accepts no arguments, so the tool cannot be called");
    if (form_.anywhere) DML_CHECK(form_.marks.size() == 1);
    else openers_ = form_.marks;
    if (form_.thinks) openers_.emplace_back(kThink);
    if (!form_.required) start_ = state({form_.thinking ? Phase::thought : Phase::start});
    else if (form_.calls[0].head.empty()) start_ = state({Phase::inside, 0, 0, form_.calls[0].rest->start()});
    else start_ = state({Phase::head});
  }
  State start() override { return start_; }
  bool free(State s) override {  // marks before and after calls may be special tokens
    const Place p = states_[s];
    if (p.phase == Phase::inside)
      return form_.close.empty() && !form_.again.empty() && form_.calls[p.which].rest->may_end(p.inner);
    return p.phase <= Phase::text || p.phase >= Phase::closing;
  }
  bool may_end(State s) override {
    const Place p = states_[s];
    if (p.phase <= Phase::text) return form_.text;
    if (p.phase == Phase::inside) return form_.close.empty() && form_.calls[p.which].rest->may_end(p.inner);
    return p.phase == Phase::behind && p.at == 0;
  }
  void limit_work(std::size_t most) override {
    Automaton::limit_work(most);
    for (const CallForm::Call& call : form_.calls) call.rest->limit_work(most);
  }

 private:
  enum class Phase : std::uint8_t {
    start,    // white space, then `at` bytes of openers_[which]
    thought,  // in reasoning; at: matched bytes of </think>
    text,     // at: matched bytes of the mark
    head,     // in a call's head; at: bytes read; calls[which] is the first call that has them
    inside,   // in calls[which]; inner: its state
    closing,  // at: matched bytes of form_.close
    behind    // a call is complete; at: matched bytes of form_.again
  };
  struct Place {
    Phase phase;
    std::uint32_t which = 0, at = 0;
    State inner = 0;
  };

  std::size_t data_bytes() const override {
    std::size_t out = states_.size() * 2 * sizeof(Place);
    for (const CallForm::Call& call : form_.calls) out += call.rest->bytes();
    return out;
  }
  State state(Place p) {
    auto [it, fresh] = ids_.try_emplace({p.phase, p.which, p.at, p.inner}, static_cast<State>(states_.size()));
    if (fresh) states_.push_back(p);
    return it->second;
  }
  State step(State s, unsigned char byte) override {
    work_.spend(1);
    const Place p = states_[s];
    switch (p.phase) {
      case Phase::start:
        return opened(p, byte);
      case Phase::thought: {
        const std::size_t at = matched_after(kThought, p.at, byte);
        if (at < kThought.size()) return state({Phase::thought, 0, static_cast<std::uint32_t>(at)});
        return state({form_.anywhere ? Phase::text : Phase::start});
      }
      case Phase::text:
        return text(p.at, byte);
      case Phase::head:
        return head(p, byte);
      case Phase::inside: {
        Automaton& rest = *form_.calls[p.which].rest;
        if (const State next = rest.after(p.inner, byte); next != kDead)
          return state({Phase::inside, p.which, 0, next});
        return rest.may_end(p.inner) ? called(0, byte) : kDead;
      }
      case Phase::closing:
        return called(p.at, byte);
      case Phase::behind:
        return again(p.at, byte);
    }
    return kDead;
  }

  State opened(const Place& p, unsigned char byte) {
    if (form_.text && p.at == 0 && (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n')) return state(p);
    const std::string so_far = openers_.empty() ? "" : openers_[p.which].substr(0, p.at);
    const std::string now = so_far + static_cast<char>(byte);
    for (std::uint32_t i = 0; i < openers_.size(); ++i) {
      if (!openers_[i].starts_with(now)) continue;
      if (now.size() < openers_[i].size()) return state({Phase::start, i, static_cast<std::uint32_t>(now.size())});
      return i < form_.marks.size() && !form_.anywhere ? marked() : state({Phase::thought});
    }
    if (!form_.text) return kDead;
    State out = state({Phase::text});  // not an opener: what was matched is text
    for (unsigned char c : now) out = text(states_[out].at, c);
    return out;
  }
  State text(std::uint32_t at, unsigned char byte) {
    if (!form_.anywhere) return state({Phase::text});
    const std::string& mark = form_.marks[0];
    const std::size_t next = matched_after(mark, at, byte);
    return next == mark.size() ? marked() : state({Phase::text, 0, static_cast<std::uint32_t>(next)});
  }
  // After the mark.
  State marked() { return form_.calls[0].head.empty() ? inside(0) : state({Phase::head}); }
  State inside(std::uint32_t which) {
    Automaton& rest = *form_.calls[which].rest;
    const State begun = rest.after(rest.start(), form_.begun);
    return begun == kDead ? kDead : state({Phase::inside, which, 0, begun});
  }
  State head(const Place& p, unsigned char byte) {
    const std::string now = form_.calls[p.which].head.substr(0, p.at) + static_cast<char>(byte);
    for (std::uint32_t i = p.which; i < form_.calls.size(); ++i) {
      const std::string& head = form_.calls[i].head;
      if (head == now) return inside(i);
      if (head.starts_with(now)) return state({Phase::head, i, static_cast<std::uint32_t>(now.size())});
    }
    return kDead;
  }
  State called(std::uint32_t at, unsigned char byte) {
    if (form_.close.empty()) return again(0, byte);
    if (static_cast<unsigned char>(form_.close[at]) != byte) return kDead;
    return state(++at < form_.close.size() ? Place{Phase::closing, 0, at} : Place{Phase::behind});
  }
  State again(std::uint32_t at, unsigned char byte) {
    if (form_.again.empty() || static_cast<unsigned char>(form_.again[at]) != byte) return kDead;
    return ++at < form_.again.size() ? state({Phase::behind, 0, at}) : marked();
  }

  CallForm form_;
  std::vector<std::string> openers_;
  std::vector<Place> states_;
  std::map<std::tuple<Phase, std::uint32_t, std::uint32_t, State>, State> ids_;
  State start_ = kDead;
};

}  // namespace

std::unique_ptr<Automaton> call_automaton(CallForm form) { return std::make_unique<CallAutomaton>(std::move(form)); }

}  // namespace dml
