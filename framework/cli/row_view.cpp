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

void print_scores(const std::vector<RowScore>& scores, const std::vector<std::size_t>& order, std::size_t most) {
  print(fmt::format("{:>10}  {:>10}  {:>14}  {}\n", "loss", "base loss", "trained tokens", "row"));
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) {
    const RowScore& r = scores[order[i]];
    print(fmt::format("{:>10.4f}  {:>10.4f}  {:>14}  {}\n", r.last_loss(), r.base_loss, r.trained_tokens, r.place));
  }
}

}  // namespace dml
