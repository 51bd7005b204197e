#include "data/parquet/rows.h"

#include "core/error.h"
#include "core/shown.h"
#include "data/json_values.h"

namespace dml::parquet {
namespace {

using Repetition = Node::Repetition;

}  // namespace

Rows::Rows(const std::string& path) : file_(path), footer_(read_footer(file_.text(), file_.path())) {}

void Rows::open_group() {
  const RowGroupPlace& place = footer_.groups[group_];
  columns_.clear();
  for (std::size_t c = 0; c < place.chunks.size(); ++c)
    columns_.emplace_back(
        file_.text(), place.chunks[c], *footer_.columns[c],
        fmt::format("{}: row group {}, column '{}'", file_.path(), group_, shown(footer_.columns[c]->name, 60)));
  in_group_ = 0;
  open_ = true;
}

bool Rows::next(std::string& row) {
  row.clear();
  while (!open_ || in_group_ == footer_.groups[group_].rows) {
    if (open_) {
      for (Column& c : columns_)
        if (c.more()) c.fail("it has more values than its row group has rows");
      ++group_;
      open_ = false;
    }
    if (group_ == footer_.groups.size()) return false;
    open_group();
  }
  for (Column& c : columns_) {
    if (!c.more()) c.fail(fmt::format("it ends after {} of {} rows", in_group_, footer_.groups[group_].rows));
    if (c.rep() != 0) c.fail("a row begins inside another");
  }
  write_fields(footer_.root, row);
  if (row.size() > kMaxBytes) too_large();
  ++in_group_, ++row_;
  return true;
}

void Rows::write_fields(const Node& node, std::string& out) {
  char before = '{';
  for (const Node& child : node.children) {
    out += before;
    before = ',';
    out += child.key;
    write(child, out);
  }
  out += '}';
}

void Rows::too_large() const {
  throw UserError("{}, row {}: the row has more than {} MiB; split it into several rows", file_.path(), row_ + 1,
                  kMaxBytes >> 20);
}

// Whether the node is present by the entry of its first leaf; the other leaves must agree.
bool Rows::is_present(const Node& node) {
  bool there = false;
  for (std::size_t i = 0; i < node.leaves; ++i) {
    Column& c = columns_[node.first_leaf + i];
    if (!c.more()) c.fail("it ends inside a row");
    const bool here = c.def() >= node.def;
    if (i > 0 && here != there) c.fail(fmt::format("the columns of '{}' contradict each other", node.name));
    there = here;
  }
  return there;
}

// Whether another element of a repeated node follows.
bool Rows::row_continues(const Node& node) {
  bool on = false;
  for (std::size_t i = 0; i < node.leaves; ++i) {
    Column& c = columns_[node.first_leaf + i];
    const bool here = c.more() && c.rep() == node.rep;
    if (i > 0 && here != on) c.fail(fmt::format("the columns of '{}' have different lengths", node.name));
    on = here;
  }
  return on;
}

void Rows::skip(const Node& node) {
  for (std::size_t i = 0; i < node.leaves; ++i) columns_[node.first_leaf + i].advance();
}

void Rows::write(const Node& node, std::string& out) {
  if (out.size() > kMaxBytes) too_large();
  if (node.repetition == Repetition::repeated) return write_repeated(node, nullptr, out);
  if (node.repetition == Repetition::optional && !is_present(node)) {
    skip(node);
    out += "null";
    return;
  }
  if (node.is_leaf()) return write_value(columns_[node.first_leaf], out);
  const bool wraps = node.children.size() == 1 && node.children[0].repetition == Repetition::repeated;
  if (wraps && node.logical == Logical::map && node.children[0].children.size() == 2) return write_map(node, out);
  if (wraps && (node.logical == Logical::list || node.logical == Logical::map))
    return write_repeated(node.children[0], &node, out);
  write_fields(node, out);
}

// The entries of a repeated node, with commas between them.
template <class Entry>
void Rows::write_entries(const Node& node, std::string& out, Entry&& entry) {
  if (!is_present(node)) return skip(node);
  for (bool first = true; first || row_continues(node); first = false) {
    if (!first) out += ',';
    if (out.size() > kMaxBytes) too_large();
    entry();
  }
}

// `list`: the annotated group around the repeated node, which may be only a wrapper of the element.
void Rows::write_repeated(const Node& node, const Node* list, std::string& out) {
  const bool wrapper = list && node.children.size() == 1 && node.children[0].repetition != Repetition::repeated &&
                       node.name != "array" && node.name != list->name + "_tuple";
  out += '[';
  write_entries(node, out, [&] {
    if (wrapper) write(node.children[0], out);
    else if (node.is_leaf()) write_value(columns_[node.first_leaf], out);
    else write_fields(node, out);
  });
  out += ']';
}

void Rows::write_map(const Node& map, std::string& out) {
  const Node& node = map.children[0];
  out += '{';
  write_entries(node, out, [&] {
    std::string name;
    write(node.children[0], name);
    if (name.starts_with('"')) out += name;
    else put_text(name, out);
    out += ':';
    write(node.children[1], out);
  });
  out += '}';
}

void Rows::write_value(Column& column, std::string& out) {
  if (!column.more()) column.fail("it ends inside a row");
  if (!column.has_value()) column.fail("a required value is missing");
  column.write_value(out);
  column.advance();
}

}  // namespace dml::parquet
