// From the recipe's data sections to a prepared folder: found by its digest when it is there, else built.
//
// The folder's name is a digest of everything that decides its content: bytes of the data files, tokenizer, templates
// and every setting that counts. Several processes may ask for the same folder at once: one builds, the others wait for
// it; a lock ends with its owner, and what a killed process left behind is removed by the next one.
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

/// Reports every error of prepare() to `problem`, by the same code, and writes nothing. With limits, only the first
/// rows of each dataset are read.
DataCheck check_data(const DataSection& data, const TemplateSection& templates, std::uint64_t seed,
                     const Tokenizer& tokenizer, const CheckLimits& limits, const ProblemSink& problem);
/// The part of the check that needs no tokenizer: files that are missing or of an unknown form, and unknown types.
void check_sources(const DataSection& data, const ProblemSink& problem);

/// The arguments for making the strategy of a dataset. Also for inference, so that both use one template.
PromptContext prompt_context(const DataSection& data, const TemplateSection& templates, const DatasetEntry& dataset,
                             const Tokenizer& tokenizer);

/// Named inputs: what a prepared folder was made from. Two folders with equal inputs are equal.
using PreparedInputs = std::vector<std::pair<std::string, std::string>>;

/// "sequence_len changed (512 → 1024), data/a.jsonl changed": how these inputs differ from the most similar folder in
/// `root`; "" when there is none.
std::string what_changed(const PreparedInputs& inputs, const std::string& root);

}  // namespace dml
