// Selects the files of a dataset by name alone, so that those of a dataset on the Hub are known before they are
// downloaded.
#pragma once

#include <string>
#include <vector>

namespace dml {

struct DatasetEntry;  // recipe/recipe.h

/// Whether a file of this name holds rows; with `documents`, also whether it is a text that is one row.
bool names_rows(const std::string& path, bool documents);
bool asks_for_documents(const DatasetEntry& dataset);
/// Removes text files (.txt) that lie beside JSON, CSV or tables, and returns them: they are notes and licenses, not
/// rows. None where `ds_type` asks for texts.
std::vector<std::string> take_texts_beside_rows(std::vector<std::string>& names, const DatasetEntry& dataset);

/// The name of the split: "test" for `split: Test[:50%]`.
std::string split_of(const DatasetEntry& dataset);
/// One entry for each split that is added up: two for `split: train+test`. UserError for slices in a sum.
std::vector<DatasetEntry> entries_of_splits(const DatasetEntry& dataset);
struct FilesOfSplit {
  std::vector<std::string> files, left_out;  // left out: named after another split
  std::vector<std::string> unnamed;          // left out beside files named after the split train: after no split
  bool named = false;                        // `files` are named after the split
};
/// Selects files by their names relative to the dataset: those named after its split ("train-00000.parquet",
/// "wiki_train.jsonl", "train/a.csv"); without any, those that are not named after another split; or else all.
FilesOfSplit select_split(const std::vector<std::string>& names, const DatasetEntry& dataset);

/// Selects, from the files of a dataset (paths below `folder`, where only the card must exist), those that
/// find_sources() reads. UserError when a pattern matches no file, or the card or the files have no such configuration
/// or split.
std::vector<std::string> wanted_files(const DatasetEntry& dataset, const std::string& folder,
                                      const std::vector<std::string>& files);

}  // namespace dml
