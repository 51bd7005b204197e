// dml init: the kind of rows by names and contents of columns: a conversation, question and answer, a document,
// compared answers.
#pragma once

#include "pipeline/init_data.h"

namespace dml {

/// Sets entry, kind, rl, contents and notes from the sample. UserError where no column is recognised as text.
void detect_columns(DataFacts& facts, const ColumnHints& hints);

}  // namespace dml
