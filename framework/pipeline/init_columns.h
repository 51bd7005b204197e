// dml init: determines the kind of rows (conversations, questions and answers, documents, preference data) from names
// and contents of columns.
#pragma once

#include "pipeline/init_data.h"

namespace dml {

/// Sets entry, kind, rl, contents and notes from the sample. UserError where no column is recognized as text.
void detect_columns(DataFacts& facts, const ColumnHints& hints);

}  // namespace dml
