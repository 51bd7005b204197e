// The output of `dml score`, one JSON line for each row:
//   {"row": number, "place": "FILE:LINE", "digest": …, "tokens": …, "trained_tokens": …, "loss": …, "perplexity": …,
//    "base_loss": …, "difference": base_loss − loss}
// The last two fields are absent if only one model was scored: the base before training, or a trained model without a
// base. The digest is of the tokens and labels that were scored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dml {

struct RowScore {
  std::string place;
  std::int64_t tokens = 0, trained_tokens = 0;
  double base_loss = 0;             // mean over trained tokens; of the only model, if there is one
  std::optional<double> loss = {};  // of the trained model, if both were scored
  std::string digest = {};          // digest_of_example(); empty if unknown

  double last_loss() const { return loss.value_or(base_loss); }
  double difference() const { return base_loss - last_loss(); }
};

/// Whether any row has the losses of two models.
bool have_two_losses(const std::vector<RowScore>& scores);
std::string score_line(std::size_t row, const RowScore& score);
/// UserError naming the first line that is not a score.
std::vector<RowScore> read_scores(const std::string& path);

/// The values by which rows can be sorted: loss, perplexity (the same order), base_loss, …, row.
std::vector<std::string> score_names();
/// Row numbers sorted by a value; largest first, or smallest first with `lowest`. Stable. UserError for an unknown
/// name.
std::vector<std::size_t> sorted_scores(const std::vector<RowScore>& scores, const std::string& by, bool lowest);

}  // namespace dml
