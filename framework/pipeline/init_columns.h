// dml init tells from the names and contents of columns what a row is: a conversation, question and answer, a document,
// answers that were compared.
#pragma once

#include "pipeline/init_data.h"

namespace dml {

/// Sets entry, kind, rl, contents and notes from the sample. UserError when no column can be told to hold text.
void detect_columns(DataFacts& facts, const ColumnHints& hints);

}  // namespace dml
