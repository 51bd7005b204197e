// A row of a plug-in becomes a row of dml's own table: one file for each kind, which says what the kind's interface means in the
// terms of the framework.
#pragma once

#include "dml/plugin.h"
#include "plugin/origin.h"

namespace dml {

void add_row(const Origin& origin, plugin::Row<plugin::PromptFormat> row);
void add_row(const Origin& origin, plugin::Row<plugin::Optimizer> row);
void add_row(const Origin& origin, plugin::Row<plugin::Schedule> row);
void add_row(const Origin& origin, plugin::Row<plugin::Objective> row);
void add_row(const Origin& origin, plugin::Row<plugin::AnswerCheck> row);
void add_row(const Origin& origin, plugin::Row<plugin::Evaluator> row);
void add_row(const Origin& origin, plugin::Row<plugin::Observer> row);
void add_row(const Origin& origin, plugin::Row<plugin::Strategy> row);

}  // namespace dml
