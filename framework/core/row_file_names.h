// The names of the files of a dataset: how rows are written, and how the file is packed.
#pragma once

#include <string>
#include <string_view>

namespace dml {

/// The extension in lower case; of a compressed file (.gz, .zst, .xz, .bz2, .lz4) the one before it: ".jsonl".
std::string row_extension(std::string_view path);
/// Whether the name is that of a file of rows, compressed or not; with `documents`, of a text that is one row.
bool has_row_extension(std::string_view path, bool documents = false);
/// Whether an ending that is unknown follows that of a file of rows: "rows.jsonl.br".
bool has_unread_extension(std::string_view path);
/// Whether the name is that of an archive, which may hold files of rows.
bool is_archive_name(std::string_view path);

}  // namespace dml
