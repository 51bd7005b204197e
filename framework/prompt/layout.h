// A layout is text with placeholders for columns of the record: "### Input:\n{input}\n". Its own text is markup; text
// of the record is not, so special tokens spelled out in data stay text.
//
//   {column}      text of the column          {a|b}   the first of these that the record has
//   {column[]}    a list, as lines `- "item"` {column%}  nested values, as YAML
//   {{ and }}     braces
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "prompt/strategy.h"

namespace dml {

class Layout {
 public:
  Layout() = default;
  /// UserError for an unbalanced brace, naming `what`.
  explicit Layout(std::string_view text, std::string_view what = "format");

  /// Appends the pieces. UserError when a column is missing or not a string.
  void render(const Json& record, bool trained, Segment& out) const;
  /// Columns in order of appearance; of alternatives, the first.
  std::vector<std::string> columns() const;
  const std::string& text() const { return text_; }

 private:
  enum class Form { literal, text, lines, yaml };
  struct Part {
    Form form = Form::literal;
    std::string text;                  // if literal
    std::vector<std::string> columns;  // alternatives
  };
  std::string text_;
  std::vector<Part> parts_;
  std::size_t literals_ = 0;  // bytes of all literals
};

/// The string in a column. UserError when it is missing or not a string, suggesting the type that fits such rows.
const std::string& text_column(const Json& record, const std::string& column);
/// The string in a column; "" if it is missing or null.
std::string optional_text_column(const Json& record, const std::string& column);
/// The list in a column.
const Json& list_column(const Json& record, const std::string& column);
/// Whether the row was made of a prompt alone (row_of_prompt()): it has the columns of many formats.
bool made_of_prompt(const Json& record);
/// "; it looks like …: use `type: …`", or "" if no format is recognized.
std::string looks_like(const Json& record);
/// "; did you mean 'KEY'?" with the key of an object that is nearest to `wanted`; without one, `otherwise`.
std::string nearest_key(const std::string& wanted, const Json& object, const std::string& otherwise);

}  // namespace dml
