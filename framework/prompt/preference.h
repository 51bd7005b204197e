// Formats of preference data: a record becomes a pair of documents (chosen, rejected), or one document that people
// found good or bad. The prompt is read, the answer is trained. Names, columns and texts are those of Axolotl's
// formats.
#pragma once

#include "prompt/strategy.h"

namespace dml {

/// Rows of prompt, chosen and rejected: rl: dpo, ipo, orpo, simpo, cpo.
Registry<PromptFactory>& pair_strategies();
/// Rows of prompt, completion and label: rl: kto.
Registry<PromptFactory>& labelled_strategies();

/// The strategy for context.dataset->type where context.rows are pairs or labelled answers.
std::unique_ptr<PromptStrategy> make_preference_strategy(const PromptContext& context);
/// UserError when the type is a name that no row of the table has, with the nearest one.
void check_preference_type(const DatasetType& type, RowKind rows);

}  // namespace dml
