// The ranks that dml train starts itself if no launcher did: their number for a recipe on this host, and what is passed
// to them. They divide the micro-batches of one rank's step, so the bits are those of one rank.
#pragma once

#include <optional>

#include "diagnose/layout.h"
#include "recipe/recipe.h"

namespace dml {

/// The topology of this host, with the number of cores that this process may keep busy.
Topology own_host();
/// The layout of a run that dml train starts on `host`: by 'ranks' and 'threads' if set, else the fastest one by
/// choose_layout(). `why` is empty if there was no choice. Prepares the data if it must be known; throws the UserErrors
/// of training.
LayoutChoice layout_of(const RecipeFile& file, const Topology& host);

/// The layout that dml launch proposes for training on `host` if the user specifies none. Each rank computes
/// gradient_accumulation_steps micro-batches of its own if there is no batch_size.
LayoutChoice launched_layout_of(const RecipeFile& file, const Topology& host);

/// Passes the layout to the ranks that this process will start.
void pass_layout_to_ranks(const LayoutChoice& choice);
/// In a rank that dml train started: the layout passed to it.
std::optional<LayoutChoice> layout_from_parent();

}  // namespace dml
