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
  Token label = kIgnore;  // not shifted: the token itself where it is trained
  std::string text;       // the text that this token adds; may be empty inside a character of several tokens
  bool special = false;

  bool trained() const { return label != kIgnore; }
};

struct RowView {
  std::string title;  // "row 3, data/a.jsonl:17"
  std::vector<TokenView> tokens;

  std::int64_t trained() const;
};

/// The documents of row i, one after the other: of a pair, the preferred one comes first. The title says which it is.
std::vector<RowView> view_documents(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer,
                                    const std::string& title);
/// Row i of a list of examples.
RowView view_row(const Examples& examples, std::int64_t i, const Tokenizer& tokenizer, std::string title);
/// Numbers of the first `most` rows whose text contains `text`.
std::vector<std::int64_t> find_rows(const Examples& examples, const Tokenizer& tokenizer, std::string_view text,
                                    std::size_t most);

struct ViewStyle {
  bool color = true;  // trained green, read dim, special tokens inverse; else trained spans stand in ⟦…⟧
  bool ids = false;   // every token as token(label, id)
};
/// Control characters are escaped, newlines are shown and kept.
std::string render_text(const RowView& row, const ViewStyle& style);
Json render_json(const RowView& row);

/// The summary of prepared data: inputs, report, and with a schedule the plan of the run.
std::vector<std::string> describe(const Prepared& prepared, const Schedule* schedule = nullptr);
/// Steps, micro-batches, packing and the largest micro-batch of a run.
std::vector<std::string> describe(const Schedule& schedule);

}  // namespace dml
