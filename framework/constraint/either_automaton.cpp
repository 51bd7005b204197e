// Texts that one of two automata accepts: both read the text as long as it fits them.
#include <map>
#include <utility>

#include "constraint/automaton.h"

namespace dml {
namespace {

class EitherAutomaton final : public Automaton {
 public:
  EitherAutomaton(std::unique_ptr<Automaton> one, std::unique_ptr<Automaton> other)
      : one_(std::move(one)), other_(std::move(other)), start_(state({one_->start(), other_->start()})) {}
  State start() override { return start_; }
  bool may_end(State s) override {
    const Pair p = states_[s];
    return (p.first != kDead && one_->may_end(p.first)) || (p.second != kDead && other_->may_end(p.second));
  }
  bool free(State s) override {
    const Pair p = states_[s];
    return (p.first != kDead && one_->free(p.first)) || (p.second != kDead && other_->free(p.second));
  }
  void limit_work(std::size_t most) override {
    one_->limit_work(most);
    other_->limit_work(most);
  }

 private:
  using Pair = std::pair<State, State>;

  State state(Pair p) {
    if (p == Pair{kDead, kDead}) return kDead;
    auto [it, fresh] = ids_.try_emplace(p, static_cast<State>(states_.size()));
    if (fresh) states_.push_back(p);
    return it->second;
  }
  State step(State s, unsigned char byte) override {
    const Pair p = states_[s];
    return state({p.first == kDead ? kDead : one_->after(p.first, byte),
                  p.second == kDead ? kDead : other_->after(p.second, byte)});
  }
  std::size_t data_bytes() const override {
    constexpr std::size_t kNode = 48;
    return one_->bytes() + other_->bytes() + states_.size() * (2 * sizeof(Pair) + kNode);
  }

  std::unique_ptr<Automaton> one_, other_;
  std::vector<Pair> states_;
  std::map<Pair, State> ids_;
  State start_;
};

}  // namespace

std::unique_ptr<Automaton> either_automaton(std::unique_ptr<Automaton> one, std::unique_ptr<Automaton> other) {
  return std::make_unique<EitherAutomaton>(std::move(one), std::move(other));
}

}  // namespace dml
