// Views of prepared data: the rows of a run, and for each token whether it is trained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct TokenView {
  Token id = 0;
  Token label = kIgnore;  // not shifted: the token itself if it is trained
  std::string text;       // the text that this token adds; may be empty if a character spans several tokens
  bool special = false;

  bool trained() const { return label != kIgnore; }
};

struct RowView {
  std::string title;  // "row 3, data/a.jsonl:17"
  std::vector<TokenView> tokens;

  /// Tokens that count in the loss; the first one is never a target.
  std::int64_t trained() const;
};

/// Views of the documents of row i; of a pair, the chosen one comes first. The title says which one it is.
std::vector<RowView> view_documents(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer,
                                    const std::string& title);
/// A view of row i of a list of examples; the documents of a pair are end to end.
RowView view_row(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer, std::string title);
/// Indices of the first `most` rows whose text contains `text`.
std::vector<std::int64_t> find_rows(const Examples& examples, const Tokenizer& tokenizer, std::string_view text,
                                    std::size_t most);

struct ViewStyle {
  bool color =
      true;  // trained tokens green, others dim, special tokens inverse; without color, trained spans are in ⟦…⟧
  bool ids = false;  // every token as token(label, id)
};
/// The row as text. Control characters are escaped, newlines are shown and kept.
std::string render_text(const RowView& row, const ViewStyle& style);
Json render_json(const RowView& row);

/// A summary of prepared data: inputs, report and, with a schedule, the plan of the run.
std::vector<std::string> describe(const Prepared& prepared, const Schedule* schedule = nullptr);
/// Steps, micro-batches, packing and the largest micro-batch of a run.
std::vector<std::string> describe(const Schedule& schedule);

}  // namespace dml
