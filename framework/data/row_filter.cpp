#include "data/row_filter.h"

#include <algorithm>

#include "core/error.h"
#include "data/report.h"
#include "data/scores.h"
#include "recipe/recipe.h"

namespace dml {

RowFilter::RowFilter(const DataSection& data) : data_(data) {
  if (data.scores.path.empty()) return;
  for (const RowScore& s : read_scores(data.scores.path)) {
    Score& score = scores_.try_emplace(s.place, s.last_loss()).first->second;
    score.loss = std::max(score.loss, s.last_loss());
    if (!s.digest.empty()) score.digests.push_back(s.digest);
  }
}

std::optional<RowFilter::Refusal> RowFilter::by_score(const MadeExample& made, const std::string& place) {
  const ScoreFilter& wanted = data_.scores;
  if (std::ranges::find(wanted.drop, place) != wanted.drop.end())
    return found_ = true, Refusal{dropped::kByScore, "in scores.drop"};
  const auto found = scores_.find(place);
  if (found == scores_.end()) return std::nullopt;
  found_ = true;
  const auto& [loss, digests] = found->second;
  const std::string digest = digest_of_example(made.example.ids, made.example.labels);
  if (!digests.empty() && std::ranges::find(digests, digest) == digests.end() && changed_++ == 0)
    first_changed_ = place;
  if (wanted.max_loss && !(loss <= *wanted.max_loss))
    return Refusal{dropped::kByScore, fmt::format("loss {:.4f} is above max_loss {:g}", loss, *wanted.max_loss)};
  if (wanted.min_loss && !(loss >= *wanted.min_loss))
    return Refusal{dropped::kByScore, fmt::format("loss {:.4f} is below min_loss {:g}", loss, *wanted.min_loss)};
  return std::nullopt;
}

std::optional<RowFilter::Refusal> RowFilter::refuses(const MadeExample& made, const std::vector<SourceFile>& sources,
                                                     std::int64_t line) {
  if (!scores_.empty() || !data_.scores.drop.empty())
    if (auto refusal = by_score(made, sources.back().place(line))) return refusal;
  const Origin here{sources.size() - 1, line};
  auto duplicate_of = [&](const char* reason, const Origin& of) {
    return Refusal{reason, "of " + sources[of.source].place(of.line)};
  };
  if (data_.dataset_exact_deduplication)
    if (auto [at, fresh] = seen_.try_emplace(made.hash, here); !fresh)
      return duplicate_of(dropped::kDuplicate, at->second);
  if (!data_.dataset_near_deduplication) return std::nullopt;
  if (const auto other = near_.find_or_add(made.signature))
    return duplicate_of(dropped::kNearDuplicate, remembered_[*other]);
  remembered_.push_back(here);
  return std::nullopt;
}

void RowFilter::finish() const {
  if (changed_ > 0)
    throw UserError(
        "{}: the data or its labels changed since `dml score` wrote this file (examples: {}, the first at {}); run "
        "`dml "
        "score` again",
        data_.scores.path, changed_, first_changed_);
  if (found_ || (scores_.empty() && data_.scores.drop.empty())) return;
  const std::string first = scores_.empty() ? data_.scores.drop.front() : scores_.begin()->first;
  throw UserError("scores: none of the places is in the data (the first is {}); `dml score` writes them anew", first);
}

}  // namespace dml
