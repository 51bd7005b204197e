#include "core/closest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace dml {
namespace {

std::string folded(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before, last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[b.size()];
}

std::string closest(std::string_view word, std::span<const std::string> choices) {
  if (word.size() > 256) return "";
  std::string key = folded(word), best;
  int bound = static_cast<int>(std::clamp<std::size_t>(word.size() / 3, 1, 3)) + 1;
  for (const auto& choice : choices) {
    int distance = edit_distance(key, folded(choice));
    if (distance < bound) bound = distance, best = choice;
  }
  if (best.empty() && key.size() >= 4)
    for (const auto& choice : choices)
      if (folded(choice).starts_with(key)) return choice;
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> choices) {
  if (auto best = closest(word, choices); !best.empty()) return fmt::format("; did you mean '{}'?", best);
  if (!choices.empty() && choices.size() <= 12) return fmt::format("; choose from {}", fmt::join(choices, ", "));
  return "";
}

}  // namespace dml
