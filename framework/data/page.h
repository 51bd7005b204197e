// An HTML page that shows every token of rows and whether it is trained, with filters and a search. The file contains
// the rows as JSON and the script that shows them; it loads nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/json.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct PageOptions {
  std::string title;  // the name of the data
  /// The maximum of kept rows, and of dropped ones; if there are more, they are sampled evenly.
  std::int64_t most_rows = 2000;
  std::int64_t most_tokens = 4'000'000;  // of all rows on the page: about 50 MB
};

/// The data of the page: summary, warnings, and rows. A kept row is
///   {kind: "train" | "validation", row, file, line, text, ends, ids, runs, special, labels}
/// where `ends` are the offsets in `text` (UTF-16 units) at which tokens end, `runs` the lengths of alternating
/// untrained and trained ranges, `special` the indices of special tokens, and `labels` pairs (token, label) where these
/// differ. A dropped one is {kind: "dropped", file, line, reason, detail}.
Json page_data(const Prepared& prepared, const Tokenizer& tokenizer, const Schedule* schedule,
               const PageOptions& options);

/// The page with its data embedded. Data cannot break out of its script element: every '<' in it is written as \u003c.
std::string page_html(const Json& data);

}  // namespace dml
