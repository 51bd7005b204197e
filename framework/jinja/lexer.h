// Tokenizes a template with the whitespace rules that chat templates assume: trim_blocks (the newline after a block tag
// is removed), lstrip_blocks (blanks before a block tag on its line are removed), the signs "-" and "+"; one newline at
// the very end is removed, and line ends become "\n".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dml::jinja {

enum class Tok { data, block_begin, block_end, variable_begin, variable_end, name, string, integer, floating, op, eof };

struct Token {
  Tok kind = Tok::eof;
  std::string text;        // name, operator, unescaped string, digits, template data
  std::size_t offset = 0;  // into the normalized source
};

/// Converts "\r\n" and "\r" to "\n", and removes one newline at the end.
std::string normalize_newlines(std::string_view source, bool drop_last);

/// UserError "NAME:LINE:COLUMN: what" (columns count characters, from 1).
[[noreturn]] void fail_at(std::string_view name, std::string_view source, std::size_t offset, const std::string& what);

/// `source` is normalized; `name` is for errors.
std::vector<Token> tokenize(std::string_view source, std::string_view name);

}  // namespace dml::jinja
