// DIRECTORY/sweep.jsonl: the runs of a sweep that have ended, one a line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

struct SweepRecord {
  std::string name;  // "run-01"
  Json settings, overrides;
  std::string inputs;  // SweepCombination::inputs
  std::int64_t exit = -1;
};

class SweepRecords {
 public:
  /// Those of the sweep in `directory`, which need not exist. UserError naming the line that is not a record.
  explicit SweepRecords(const std::string& directory);

  /// The record of a run, of a finished one if there is any; null if no run with these settings and inputs has ended.
  const SweepRecord* find(const Json& settings, const std::string& inputs) const;
  /// Whether the folder of the run `name` holds one with other settings or inputs.
  bool replaces_another(const std::string& name, const Json& settings, const std::string& inputs) const;
  /// Replaces the record of the same name, and writes the file.
  void put(SweepRecord record);

 private:
  std::string path_;
  std::vector<SweepRecord> all_;
};

}  // namespace dml
