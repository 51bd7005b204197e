// Registries are explicit tables: a row is a name, a line of help and a factory. The table is written out in one .cpp
// (self-registration in a static library registers nothing); plug-ins add rows with add().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/closest.h"
#include "core/error.h"

namespace dml {

template <class Factory>
class Registry {
 public:
  struct Row {
    std::string name, help;
    Factory make;
  };

  Registry(std::string kind, std::vector<Row> rows) : kind_(std::move(kind)), rows_(std::move(rows)) {}
  /// The rows that each of these functions returns, in their order.
  template <std::size_t N>
  Registry(std::string kind, std::vector<Row> (*const (&parts)[N])()) : kind_(std::move(kind)) {
    for (auto rows : parts)
      for (Row& row : rows()) rows_.push_back(std::move(row));
  }

  /// Adds or replaces a row.
  void add(Row row) {
    for (auto& r : rows_)
      if (r.name == row.name) {
        r = std::move(row);
        return;
      }
    rows_.push_back(std::move(row));
  }
  const Row* find(std::string_view name) const {
    for (auto& r : rows_)
      if (r.name == name) return &r;
    return nullptr;
  }
  /// The row, or a UserError naming the nearest one.
  const Row& at(std::string_view name) const {
    if (const Row* r = find(name)) return *r;
    throw UserError("unknown {} '{}'{}", kind_, name, did_you_mean(name, names()));
  }
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto& r : rows_) out.push_back(r.name);
    return out;
  }

 private:
  std::string kind_;
  std::vector<Row> rows_;
};

}  // namespace dml
