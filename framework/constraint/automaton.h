// A constraint on generated text: states and the bytes that lead from one to the next. Every live state has
// a completion, so text that follows the automaton never ends up where nothing is allowed. States are numbers, made
// when they are first reached; their successors are kept, so following known text is a table look-up.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace dml {

class Automaton {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = UINT32_MAX;

  virtual ~Automaton() = default;
  Automaton() = default;
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  /// kDead where the constraint allows no text at all.
  virtual State start() = 0;
  /// Whether the text may end here.
  virtual bool may_end(State state) = 0;
  /// Whether any text may follow, so that special tokens may stand in it.
  virtual bool free(State) { return false; }
  /// The state after one more byte; kDead if no allowed text continues with that byte.
  State after(State state, unsigned char byte) {
    if (state >= table_.size()) table_.resize(state + 1);
    auto& row = table_[state];
    if (!row) {
      if (rows_ == kMostRows) {  // they can be found again
        for (auto& each : table_) each.reset();
        rows_ = 0;
      }
      row = std::make_unique<std::array<State, 256>>();
      ++rows_;
      row->fill(kUnknown);
    }
    const State known = (*row)[byte];
    if (known != kUnknown) return known;
    const State next = step(state, byte);  // may make states, but no rows
    return (*table_[state])[byte] = next;
  }

  /// The state after a text.
  State after(State state, std::string_view text) {
    for (unsigned char byte : text) {
      if (state == kDead) break;
      state = after(state, byte);
    }
    return state;
  }
  /// The byte that must come next, if any may; nothing where there is more than one.
  std::optional<unsigned char> only_byte(State state) {
    std::optional<unsigned char> only;
    for (int byte = 0; byte < 256; ++byte) {
      if (after(state, static_cast<unsigned char>(byte)) == kDead) continue;
      if (only) return {};
      only = static_cast<unsigned char>(byte);
    }
    return only;
  }
  /// Bytes of the tables and of what states stand for, about.
  virtual std::size_t bytes() const {
    return table_.size() * sizeof(table_[0]) + rows_ * sizeof(std::array<State, 256>);
  }
  bool accepts(std::string_view text) {
    const State end = after(start(), text);
    return end != kDead && may_end(end);
  }

 protected:
  virtual State step(State state, unsigned char byte) = 0;

 private:
  static constexpr State kUnknown = UINT32_MAX - 1;
  static constexpr std::size_t kMostRows = 8192;  // 8 MB: a text that counts its characters has a state for each
  std::vector<std::unique_ptr<std::array<State, 256>>> table_;
  std::size_t rows_ = 0;
};

/// How JSON may be written: any, to check texts (white space: some at a time); or one, for texts that a model writes:
/// at most one blank after a comma or colon, escapes only of what needs them, numbers without zeros at the end of a
/// fraction. It could fill its whole answer with the others.
enum class JsonSpace { any, one };

/// Constructors of the constraints that a request can have. All of them throw UserError, naming `source`, where the
/// constraint is wrong or not supported; none is ever weakened.
std::unique_ptr<Automaton> schema_automaton(std::string_view json_schema, std::string_view source,
                                            JsonSpace space = JsonSpace::any);
/// Any JSON object, as OpenAI's "json_object" asks for it.
std::unique_ptr<Automaton> json_object_automaton(JsonSpace space = JsonSpace::any);
/// Texts that match as a whole.
std::unique_ptr<Automaton> regex_automaton(std::string_view regex);
std::unique_ptr<Automaton> choice_automaton(const std::vector<std::string>& choices);
/// llama.cpp's grammar notation; the text is what its rule `root` gives.
std::unique_ptr<Automaton> grammar_automaton(std::string_view gbnf, std::string_view source);

}  // namespace dml
