// Prepares the data of a recipe: finds the prepared folder by its digest, or builds it.
//
// The folder's name is a digest of everything that determines its contents: bytes of the data files, tokenizer,
// templates and all relevant settings. If several processes need the same folder, one builds it while the others wait.
// A lock is released when its owner exits, and the next process removes what a killed one left behind.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/builder.h"
#include "data/prepared.h"
#include "prompt/strategy.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct DataSection;  // recipe/recipe.h
struct DatasetEntry;
struct TemplateSection;

struct PrepareOptions {
  bool rebuild = false;  // rebuild an existing folder
  bool verify = true;    // compare the digests of an existing folder
};

/// UserError listing the errors in the data, with file and line.
Prepared prepare(const DataSection& data, const TemplateSection& templates, std::uint64_t seed,
                 const Tokenizer& tokenizer, const PrepareOptions& options = {});

/// Passes every error of prepare() to `problem`, by the same code, and writes nothing. With limits, only the first rows
/// of each dataset are read, and only some of those with the same problem are reported.
DataCheck check_data(const DataSection& data, const TemplateSection& templates, std::uint64_t seed,
                     const Tokenizer& tokenizer, CheckLimits limits, const ProblemSink& problem);
/// The part of the check that needs no tokenizer: missing files, unknown file formats, unknown types.
void check_sources(const DataSection& data, const ProblemSink& problem);

/// The arguments for making a dataset's prompt strategy; also used for inference, so that both use one template.
PromptContext prompt_context(const DataSection& data, const TemplateSection& templates, const DatasetEntry& dataset,
                             const Tokenizer& tokenizer);

/// The named inputs of a prepared folder. Two folders with equal inputs are equal.
using PreparedInputs = std::vector<std::pair<std::string, std::string>>;

/// Describes how these inputs differ from the most similar folder in `root` that was made from a data file of the same
/// name, as in "sequence_len changed (512 → 1024), data/a.jsonl changed"; "" if there is none.
std::string what_changed(const PreparedInputs& inputs, const std::string& root);

}  // namespace dml
