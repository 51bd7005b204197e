// Regular constraints on the whole text: a regular expression, or a list of choices.
#include <map>

#include "constraint/automaton.h"
#include "constraint/regex.h"
#include "constraint/utf8.h"
#include "core/error.h"

namespace dml {
namespace {

class TextAutomaton final : public Automaton {
 public:
  template <class Make>
  explicit TextAutomaton(const Make& make) {
    const Languages::Id language = make(languages_);
    if (!languages_.empty(language)) start_ = state({language, {}});
  }
  State start() override { return start_; }
  bool may_end(State s) override {
    return states_[s].partial.complete() && languages_.accepts_end(states_[s].language);
  }

 private:
  struct StateData {
    Languages::Id language;
    PartialCodePoint partial;
  };
  State state(StateData data) {
    const auto key = std::tuple(data.language, data.partial.missing, data.partial.first, data.partial.last);
    auto [it, fresh] = ids_.try_emplace(key, static_cast<State>(states_.size()));
    if (fresh) states_.push_back(data);
    return it->second;
  }
  std::size_t data_bytes() const override { return languages_.bytes() + states_.size() * 2 * sizeof(StateData); }
  State step(State s, unsigned char byte) override {
    work_.spend(1);
    auto [language, partial] = states_[s];
    if (!partial.read(byte)) return kDead;
    if (!partial.complete())
      return languages_.continues_in(language, partial.first, partial.last) ? state({language, partial}) : kDead;
    language = languages_.after(language, partial.first);
    return language == Languages::kNone ? kDead : state({language, {}});
  }

  Languages languages_{work_};
  std::vector<StateData> states_;
  std::map<std::tuple<Languages::Id, std::uint8_t, char32_t, char32_t>, State> ids_;
  State start_ = kDead;
};

}  // namespace

std::unique_ptr<Automaton> regex_automaton(std::string_view regex) {
  return std::make_unique<TextAutomaton>([&](Languages& l) { return regex_match(l, regex); });
}

std::unique_ptr<Automaton> choice_automaton(const std::vector<std::string>& choices) {
  return std::make_unique<TextAutomaton>([&](Languages& l) {
    std::vector<std::pair<std::u32string, Languages::Id>> entries;
    for (auto& choice : choices) {
      bool valid = false;
      entries.push_back({code_points(choice, &valid), Languages::kEmptyText});
      if (!valid) throw UserError("a choice is not UTF-8");
    }
    return l.dictionary(std::move(entries));
  });
}

}  // namespace dml
