// The form of rows by a file's name, and the files of a dataset entry by names alone, so that those of a dataset on the
// Hub are known before they are downloaded.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct DatasetEntry;  // recipe/recipe.h

/// ASCII letters only.
std::string lower_case(std::string text);
/// The extension in lower case; of a compressed file (.gz, .zst) the one before: ".jsonl".
std::string row_extension(const std::string& path);
/// Whether a file of this name holds rows; with `documents`, also a text that is one row.
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
