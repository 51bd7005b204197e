// A constraint on generated text as a lazily built automaton over bytes. Every live state has a completion, so text
// that follows the automaton never reaches a dead end. States are numbers, created when they are first reached;
// transitions are cached, so following known text is a table look-up.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "constraint/work_limit.h"

namespace dml {

class Automaton {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = UINT32_MAX;

  virtual ~Automaton() = default;
  Automaton() = default;
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  /// The start state; kDead if the constraint allows no text at all.
  virtual State start() = 0;
  /// Whether the text may end here.
  virtual bool may_end(State state) = 0;
  /// Whether any text may follow, so that special tokens are allowed in it.
  virtual bool free(State) { return false; }
  /// The state after one more byte; kDead if no allowed text continues with that byte.
  State after(State state, unsigned char byte) {
    if (state >= table_.size()) table_.resize(state + 1);
    auto& row = table_[state];
    if (!row) {
      if (rows_ == kMaxRows) {  // discarded rows are recomputed on demand
        for (auto& each : table_) each.reset();
        rows_ = 0;
      }
      row = std::make_unique<std::array<State, 256>>();
      ++rows_;
      row->fill(kUnknown);
    }
    const State known = (*row)[byte];
    if (known != kUnknown) return known;
    const State next = step(state, byte);  // may create states, but no rows
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
  /// The only allowed next byte; empty if there are several or none.
  std::optional<unsigned char> only_byte(State state) {
    std::optional<unsigned char> only;
    for (int byte = 0; byte < 256; ++byte) {
      if (after(state, static_cast<unsigned char>(byte)) == kDead) continue;
      if (only) return {};
      only = static_cast<unsigned char>(byte);
    }
    return only;
  }
  /// Approximate bytes of the tables and of the data of the states.
  std::size_t bytes() const {
    return table_.size() * sizeof(table_[0]) + rows_ * sizeof(std::array<State, 256>) + data_bytes();
  }
  /// Limits the work of all later calls together; a transition that is in the table already costs nothing. See
  /// WorkLimit.
  virtual void limit_work(std::size_t most) { work_.limit(most); }
  bool accepts(std::string_view text) {
    const State end = after(start(), text);
    return end != kDead && may_end(end);
  }

 protected:
  virtual State step(State state, unsigned char byte) = 0;
  /// Approximate bytes of the data of the states.
  virtual std::size_t data_bytes() const = 0;

  WorkLimit work_;

 private:
  static constexpr State kUnknown = UINT32_MAX - 1;
  static constexpr std::size_t kMaxRows =
      8192;  // 8 MB; a constraint that counts characters has one state per character
  std::vector<std::unique_ptr<std::array<State, 256>>> table_;
  std::size_t rows_ = 0;
};

/// The accepted forms of JSON. any: for checking texts (limited white space). one: a canonical form for generated
/// texts, with at most one blank after a comma or colon, escapes only where required, and no trailing zeros in
/// fractions; a model could fill its whole answer with the other forms. Members are in the order in which the schema
/// names them, followed by those that it does not name.
enum class JsonSpace { any, one };

/// Factories of the constraints of requests. UserError naming `source` when a constraint is invalid or not supported;
/// constraints are never weakened.
std::unique_ptr<Automaton> schema_automaton(std::string_view json_schema, std::string_view source,
                                            JsonSpace space = JsonSpace::any);
/// Any JSON object: OpenAI's "json_object".
std::unique_ptr<Automaton> json_object_automaton(JsonSpace space = JsonSpace::any);
/// Texts that match the expression as a whole.
std::unique_ptr<Automaton> regex_automaton(std::string_view regex);
std::unique_ptr<Automaton> choice_automaton(const std::vector<std::string>& choices);
/// Texts that one of the two accepts.
std::unique_ptr<Automaton> either_automaton(std::unique_ptr<Automaton> one, std::unique_ptr<Automaton> other);
/// llama.cpp's grammar notation; texts derived from its rule `root`.
std::unique_ptr<Automaton> grammar_automaton(std::string_view gbnf, std::string_view source);

}  // namespace dml
