// Prepared data: a folder of arrays that are mapped, not read, so that processes of one host hold one copy.
//
//   ids, labels (I32)         tokens of all examples end to end; labels: the id where it is trained, else −100
//   offsets (I64)             example i is [offsets[i], offsets[i+1])
//   kinds, splits (I32)       the ExampleKind of each example; of a pair, the tokens of its preferred document
//   numbers, weights (F32)    weight and margin of each example; a weight for each token, or nothing where all are 1
//   source_file, source_line  the origin: index into the manifest's "sources"; line (of a JSON array: row) from 1
//   train, validation (I32)   numbers of examples, in order; an example may be named more than once
//   dropped.jsonl             every row that was dropped: place, reason, detail
//   manifest.json             written last: what the data was made from, digests of the files above, the report
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "data/examples.h"
#include "data/report.h"
#include "data/sources.h"

namespace dml {

/// The text of a manifest, including a digest of itself.
std::string manifest_text(Json manifest);

/// Where the rows of prepared data lie, in the order in which they were read: the paths of the datasets as the recipe
/// has them, and of all their files.
struct RowOrigins {
  std::vector<std::string> datasets, files;
};

class Prepared {
 public:
  static constexpr int kVersion = 9;
  static const std::vector<std::string>& array_names();

  /// Opens a prepared folder. UserError when it is not prepared data, or damaged (digests of all files are compared,
  /// unless `verify` is off; that of the manifest always is).
  static Prepared open(const std::string& folder, bool verify = true);

  Examples train() const;
  Examples validation() const;
  /// Every stored example, in the order of the sources.
  Examples all() const;

  /// The origin of a stored example, formatted by SourceFile::place().
  std::string place(std::int32_t stored) const;
  /// The records from which these stored examples were made, read again from their files. UserError when one no longer
  /// exists.
  std::vector<Json> records(std::span<const std::int32_t> stored) const;
  /// The first `most` dropped rows.
  std::vector<DroppedRow> dropped(std::int64_t most) const;
  RowOrigins origins() const;
  /// Names the files from now on by these paths: the folder may have been prepared when they lay elsewhere. UserError
  /// when there are not as many.
  void relocate(const RowOrigins& now);
  const DataReport& report() const;
  const Json& manifest() const;
  const std::string& folder() const;

  bool was_ready = false;              // found in the cache, not built
  std::string note;                    // "cache hit: FOLDER" or "rebuilding because …: FOLDER"
  std::string cost;                    // seconds by phase, if it was built
  bool trains_chosen_prompts = false;  // of all its Examples; not stored: set where the recipe is known

 private:
  Examples list(std::span<const std::int32_t> chosen) const;
  std::string with_places_now(const std::string& text) const;
  DroppedRow with_places_now(const DroppedRow& row) const;

  struct Arrays;
  std::shared_ptr<const Arrays> arrays_;  // shared, so that Examples stay valid when a Prepared is moved or copied
  std::vector<SourceFile> sources_;
  DataReport report_;
  std::vector<std::pair<std::string, std::string>> moved_;  // files: their path when they were prepared → now
};

}  // namespace dml
