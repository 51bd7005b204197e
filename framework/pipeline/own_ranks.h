// The ranks that dml train starts by itself where no launcher has: how many a recipe gets on this host, and what they
// are told. They share the micro-batches of the step that one rank would take, so the bits are those of one rank.
#pragma once

#include <optional>

#include "diagnose/layout.h"
#include "recipe/recipe.h"

namespace dml {

/// This host, with as many cores as this process may keep busy.
Topology own_host();
/// The layout of a run that dml train starts on `host`: as 'ranks' and 'threads' say, else the fastest one by
/// choose_layout(). `why` is empty where there was nothing to choose. Prepares the data where they have to be known;
/// UserError as training has it.
LayoutChoice layout_of(const RecipeFile& file, const Topology& host);

/// The ranks that dml launch proposes for training on `host`, where the user says nothing. Each takes
/// gradient_accumulation_steps micro-batches of its own where there is no batch_size.
LayoutChoice launched_layout_of(const RecipeFile& file, const Topology& host);

/// Tells the ranks that this process will start.
void tell_layout(const LayoutChoice& choice);
/// In a rank that dml train started: what it was told.
std::optional<LayoutChoice> told_layout();

}  // namespace dml
