// Helpers shared by the tests of constraints.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "constraint/automaton.h"
#include "core/error.h"

namespace dml {

inline void check(Automaton& automaton, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& rejected) {
  for (auto& text : accepted) EXPECT_TRUE(automaton.accepts(text)) << text;
  for (auto& text : rejected) EXPECT_FALSE(automaton.accepts(text)) << text;
}
inline void check(const std::string& schema, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& rejected) {
  check(*schema_automaton(schema, "schema"), accepted, rejected);
}

inline bool dead(Automaton& automaton, std::string_view text) {
  return automaton.after(automaton.start(), text) == Automaton::kDead;
}

/// A random text of allowed bytes; it ends as soon as possible once it is long. Fails at a dead end; empty if the
/// random walk does not end in time.
inline std::optional<std::string> random_walk(Automaton& automaton, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  Automaton::State state = automaton.start();
  for (int i = 0; i < 3000; ++i) {
    std::string next;
    for (int byte = 0; byte < 256; ++byte)
      if (automaton.after(state, static_cast<unsigned char>(byte)) != Automaton::kDead) next += static_cast<char>(byte);
    if (automaton.may_end(state) && (next.empty() || text.size() > 60 || random() % 4 == 0)) return text;
    if (next.empty()) {
      ADD_FAILURE() << "nothing is allowed behind " << text;
      return std::nullopt;
    }
    // Long texts are completed: closing characters are tried first.
    char byte = next[random() % next.size()];
    const std::string closing = text.size() <= 60 || random() % 4 == 0 ? ""
                                : next.size() > 100                    ? "\""
                                                                       : "}]\"0:,";  // a string's end first
    for (std::size_t k = closing.size(); k-- > 0;)
      if (next.find(closing[k]) != std::string::npos) byte = closing[k];
    text += byte;
    state = automaton.after(state, static_cast<unsigned char>(byte));
  }
  return std::nullopt;
}

}  // namespace dml
