// Formats of preference data: a record becomes a pair of documents (chosen, rejected), or one document labeled
// desirable or undesirable. Answers are trained, prompts are not. Names, columns and texts are those of Axolotl's
// formats.
#pragma once

#include "prompt/strategy.h"

namespace dml {

/// The type whose rows are strings used unchanged, or messages.
inline constexpr const char* kPassthrough = "passthrough";
/// Whether a row of this type holds messages.
bool holds_messages(const Json& record);

/// Formats of rows with prompt, chosen and rejected: rl: dpo, ipo, orpo, simpo, cpo.
Registry<PromptFactory>& pair_strategies();
/// Formats of rows with prompt, completion and label: rl: kto.
Registry<PromptFactory>& labeled_strategies();

/// The strategy of context.dataset->type if context.rows are pairs or labeled answers.
std::unique_ptr<PromptStrategy> make_preference_strategy(const PromptContext& context);
/// UserError when no row of the table has the type's name, naming the nearest one.
void check_preference_type(const DatasetType& type, RowKind rows);
/// The settings with which a type of pairs or labeled answers can be read; "" for other names.
std::string rl_of_type(const std::string& name);

}  // namespace dml
