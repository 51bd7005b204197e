#include "pipeline/sweep_record.h"

#include <algorithm>

#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"

namespace dml {
namespace {

bool is_of(const SweepRecord& record, const Json& settings, const std::string& inputs) {
  return record.settings == settings && record.inputs == inputs;
}

}  // namespace

SweepRecords::SweepRecords(const std::string& directory) : path_(directory + "/sweep.jsonl") {
  if (!file_exists(path_)) return;
  const std::string text = read_file(path_);
  for (const Line line : Lines(text)) {
    if (line.blank()) continue;
    const std::string place = fmt::format("{}:{}", path_, line.number);
    const Json record = parse_json(line.text, place);
    if (!record.is_object()) throw UserError("{}: not a record of `dml sweep`", place);
    all_.push_back({json_string(record, "name", "", place), record.value("settings", Json()),
                    record.value("overrides", Json::object()), json_string(record, "inputs", "", place),
                    json_integer(record, "exit", -1, place)});
  }
}

const SweepRecord* SweepRecords::find(const Json& settings, const std::string& inputs) const {
  const SweepRecord* found = nullptr;
  for (const SweepRecord& r : all_)
    if (is_of(r, settings, inputs) && (!found || found->exit != 0)) found = &r;
  return found;
}

bool SweepRecords::replaces_another(const std::string& name, const Json& settings, const std::string& inputs) const {
  return std::ranges::any_of(all_, [&](const SweepRecord& r) { return r.name == name && !is_of(r, settings, inputs); });
}

void SweepRecords::put(SweepRecord record) {
  std::erase_if(all_, [&](const SweepRecord& r) { return r.name == record.name; });
  all_.push_back(std::move(record));
  std::string text;
  for (const SweepRecord& r : all_)
    text += dump(Json{{"name", r.name},
                      {"settings", r.settings},
                      {"overrides", r.overrides},
                      {"inputs", r.inputs},
                      {"exit", r.exit}}) +
            "\n";
  write_file(path_, text);
}

}  // namespace dml
