// An HTML page that shows rows with every token and its mask, with filters and a search. The file holds the rows as
// JSON and the script that shows them; it loads nothing else.
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
  std::string title;                     // the name of the data
  std::int64_t most_rows = 2000;         // of kept rows, and as many of dropped ones; evenly spread when there are more
  std::int64_t most_tokens = 4'000'000;  // of all rows on the page: about 50 MB
};

/// The data of the page: summary, warnings, and rows. A kept row is
///   {kind: "train" | "validation", row, file, line, text, ends, ids, runs, special, labels}
/// with `ends` the places in `text` (UTF-16 units) where tokens end, `runs` the lengths of stretches that are read,
/// trained, read …, `special` the numbers of special tokens, `labels` pairs (token, label) where these differ. A
/// dropped one is {kind: "dropped", file, line, reason, detail}.
Json page_data(const Prepared& prepared, const Tokenizer& tokenizer, const Schedule* schedule,
               const PageOptions& options);

/// The page around its data. What rows say cannot leave the data: every '<' in it is written as \u003c.
std::string page_html(const Json& data);

}  // namespace dml
