// What the name of a file says of its rows, and which files a dataset entry means by their names alone: so those of a
// dataset on the Hub are known before they are downloaded.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct DatasetEntry;  // recipe/recipe.h

/// ASCII letters only.
std::string lower_case(std::string text);
/// In lower case, of a packed file (.gz, .zst) the one in front: ".jsonl".
std::string row_extension(const std::string& path);
/// Whether a name is that of a file of rows; with `documents`, of a text that is one row.
bool names_rows(const std::string& path, bool documents);
bool asks_for_documents(const DatasetEntry& dataset);

/// "test" of `split: Test[:50%]`
std::string split_of(const DatasetEntry& dataset);
/// Whether a path, relative to the dataset, is that of a split.
bool named_after(const std::string& split, const std::string& path);

/// Of the files of a dataset (paths below `folder`, in which only the card need be) those that find_sources() reads.
/// UserError where a pattern fits none of them, or the card or the files have no such configuration or split.
std::vector<std::string> wanted_files(const DatasetEntry& dataset, const std::string& folder,
                                      const std::vector<std::string>& files);

}  // namespace dml
