// Adapters that turn a plug-in's row into a row of dml's own table: one file per kind, which maps the kind's interface
// to the framework's.
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

/// UserError for an argument that names a setting which dml does not have.
void check_settings(const plugin::Row<plugin::Optimizer>& row);

/// Adds a row to a table under all its names.
template <class Table, class Thing, class Make>
void add_names(Table& table, const plugin::Row<Thing>& row, const Make& make) {
  for (const std::string& name : row.spellings) table.add({name, row.help, make});
  table.add({row.name, row.help, make});
}

}  // namespace dml
