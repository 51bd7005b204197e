#include "cli/row_view.h"

#include <unistd.h>

#include <algorithm>

#include "cli/output.h"
#include "core/error.h"
#include "train/progress.h"

namespace dml {

void show_rows(const Prepared& prepared, const Examples& examples, const std::vector<std::int64_t>& rows,
               const Tokenizer& tokenizer, const RowsShown& how) {
  const ViewStyle style{terminal_style(STDOUT_FILENO).color, how.ids};
  for (std::int64_t i : rows) {
    const std::string title = fmt::format("row {}, {}", i, prepared.place(examples.stored(i)));
    for (const RowView& row : view_documents(examples, i, tokenizer, title))
      print((how.json ? dump(render_json(row)) : render_text(row, style)) + "\n");
  }
}

std::string score_columns(double loss, std::optional<double> base, double trained_tokens) {
  const std::string second = base ? fmt::format("{:>10.4f}  ", *base) : "";
  return fmt::format("{:>10.4f}  {}{:>14.0f}  ", loss, second, trained_tokens);
}

void print_scores(const std::vector<RowScore>& scores, const std::vector<std::size_t>& order, std::size_t most) {
  const bool two = have_two_losses(scores);
  print(fmt::format("{:>10}  {}{:>14}  row\n", "loss", two ? " base loss  " : "", "trained tokens"));
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
    const RowScore& r = scores[order[i]];
    const auto base = two ? std::optional(r.base_loss) : std::nullopt;
    print(fmt::format("{}{}\n", score_columns(r.last_loss(), base, static_cast<double>(r.trained_tokens)), r.place));
  }
}

}  // namespace dml
