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
    Score& score = scores_[s.place];
    const double tokens = static_cast<double>(std::max<std::int64_t>(1, s.trained_tokens));
    score.sum += s.last_loss() * tokens;
    score.tokens += tokens;
    ++score.examples;
    if (!s.digest.empty()) score.losses.emplace(s.digest, s.last_loss());
  }
}

std::optional<RowFilter::Refusal> RowFilter::by_score(const MadeExample& made, const std::string& place) {
  const ScoreFilter& wanted = data_.scores;
  if (std::ranges::find(wanted.drop, place) != wanted.drop.end())
    return found_ = true, Refusal{dropped::kByScore, "in scores.drop"};
  const auto found = scores_.find(place);
  if (found == scores_.end()) return std::nullopt;
  found_ = true;
  const Score& score = found->second;
  const auto own = score.losses.find(digest_of_example(made.example.ids, made.example.labels));
  const bool scored = own != score.losses.end();
  if (!score.losses.empty() && !scored && changed_++ == 0) first_changed_ = place;
  // Lines without a digest do not say which example they are of: then the mean over the row's trained tokens counts.
  const double loss = scored ? own->second : score.sum / score.tokens;
  auto refusal = [&, what = scored || score.examples == 1 ? "loss" : "the row's mean loss"](const char* is,
                                                                                            double limit) {
    return Refusal{dropped::kByScore, fmt::format("{} {:.4f} is {} {:g}", what, loss, is, limit)};
  };
  if (wanted.max_loss && !(loss <= *wanted.max_loss)) return refusal("above max_loss", *wanted.max_loss);
  if (wanted.min_loss && !(loss >= *wanted.min_loss)) return refusal("below min_loss", *wanted.min_loss);
  return std::nullopt;
}

std::optional<RowFilter::Refusal> RowFilter::refuses(const MadeExample& made, const std::vector<SourceFile>& sources,
                                                     std::int64_t line, bool validation) {
  if (!scores_.empty() || !data_.scores.drop.empty())
    if (auto refusal = by_score(made, sources.back().place(line))) return refusal;
  const Origin here{sources.size() - 1, line, validation};
  auto duplicate_of = [&](std::string_view reason, const Origin& of) {
    const char* where = of.validation && !validation ? " in test_datasets" : "";
    return Refusal{reason, fmt::format("of {}{}", sources[of.source].place(of.line), where)};
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
        "`dml score` again",
        data_.scores.path, changed_, first_changed_);
  if (found_ || (scores_.empty() && data_.scores.drop.empty())) return;
  const std::string first = scores_.empty() ? data_.scores.drop.front() : scores_.begin()->first;
  throw UserError("scores: none of the places is in the data (the first is {}); run `dml score` again", first);
}

}  // namespace dml
