// The files that the card of a dataset lists: `configs:` in the front matter of README.md, as Hugging Face's datasets
// read it (its documentation, "Structure your repository").
//
//   configs:
//   - config_name: en
//     default: true
//     data_files:
//     - split: train
//       path: data/train-*       # or a list of them
//   - config_name: de
//     data_dir: german           # files named after their split
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dml {

/// Files, or the one directory, that the card in `folder` lists for a configuration and split, as paths below `folder`;
/// `name` unset: its default configuration. `files`: those of the dataset, where not all are in `folder`. Nothing where
/// no card lists any, or `name` is a subdirectory instead. UserError naming the choices where a configuration must be
/// chosen, or the card has no such split or none of the files that it lists.
std::optional<std::vector<std::string>> files_of_card(const std::string& folder, const std::optional<std::string>& name,
                                                      const std::string& split,
                                                      const std::optional<std::vector<std::string>>& files = {});

}  // namespace dml
