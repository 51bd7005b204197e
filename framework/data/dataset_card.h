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
//     data_dir: german           # files named after their split; below the dataset, else the entry is ignored
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dml {

/// Files, or the one directory, that the card in `folder` lists for a configuration and split, as paths relative to
/// `folder`; `name` unset: the default configuration. `files`: all files of the dataset, if not all are in `folder`.
/// Empty if there is no card that lists files, or if `name` is a subdirectory instead. UserError naming the choices
/// when a configuration must be chosen, the card has no such split, or none of its files exist.
std::optional<std::vector<std::string>> files_of_card(const std::string& folder, const std::optional<std::string>& name,
                                                      const std::string& split,
                                                      const std::optional<std::vector<std::string>>& files = {});

}  // namespace dml
