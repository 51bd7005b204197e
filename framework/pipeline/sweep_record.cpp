#include "pipeline/sweep_record.h"

#include <algorithm>

#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

bool is_of(const SweepRecord& record, const Json& settings, const std::string& inputs) {
  return record.settings == settings && record.inputs == inputs;
}

}  // namespace

SweepRecords::SweepRecords(const std::string& directory) : path_(directory + "/sweep.jsonl") {
  if (!file_exists(path_)) return;
  const std::string text = read_file(path_);
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string place = fmt::format("{}:{}", path_, ++number);
    if (end > at) {
      const Json line = parse_json(std::string_view(text).substr(at, end - at), place);
      if (!line.is_object()) throw UserError("{}: not a record of `dml sweep`", place);
      all_.push_back({json_string(line, "name", "", place), line.value("settings", Json()),
                      line.value("overrides", Json::object()), json_string(line, "inputs", "", place),
                      json_integer(line, "exit", -1, place)});
    }
    at = end + 1;
  }
}

const SweepRecord* SweepRecords::finished(const Json& settings, const std::string& inputs) const {
  const auto found =
      std::ranges::find_if(all_, [&](const SweepRecord& r) { return r.exit == 0 && is_of(r, settings, inputs); });
  return found == all_.end() ? nullptr : &*found;
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
