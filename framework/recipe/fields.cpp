#include "recipe/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/closest.h"
#include "core/error.h"
#include "recipe/codec_values.h"
#include "recipe/keys.h"

namespace dml::recipe {

Table& Table::unmapped(Unmapped effect, const char* why, const std::vector<std::string>& keys, const char* neutral) {
  for (const auto& key : keys) unmapped_.push_back({key, why, effect, neutral});
  return *this;
}

const Field* Table::find(std::string_view key) const {
  for (const auto& field : fields_)
    if (field.key == key || std::ranges::find(field.rules.aliases, key) != field.rules.aliases.end()) return &field;
  return nullptr;
}

const UnmappedKey* Table::find_unmapped(std::string_view key) const {
  if (auto same = std::ranges::find(unmapped_, key, &UnmappedKey::key); same != unmapped_.end()) return &*same;
  for (const auto& unmapped : unmapped_) {
    std::string_view pattern = unmapped.key;
    if (pattern.ends_with('*') && key.starts_with(pattern.substr(0, pattern.size() - 1))) return &unmapped;
  }
  return nullptr;
}

std::vector<std::string> Table::names() const {
  std::vector<std::string> out;
  for (const auto& field : fields_) {
    out.push_back(field.key);
    out.insert(out.end(), field.rules.aliases.begin(), field.rules.aliases.end());
    for (const Choice& choice : field.rules.choices) out.insert(out.end(), choice.flags.begin(), choice.flags.end());
  }
  return out;
}

std::vector<Section>& sections() {
  static std::vector<Section> all = {model_section(),      adapter_section(),    data_section(),
                                     template_section(),   optim_section(),      train_section(),
                                     evaluation_section(), preference_section(), distribution_section(),
                                     generation_section(), log_section(),        plugin_section()};
  return all;
}

Found find_field(std::string_view key) {
  for (auto& section : sections())
    if (const Field* field = section.table.find(key)) return {&section, field};
  return {};
}

Flag find_flag(std::string_view key) {
  for (auto& section : sections())
    for (const Field& field : section.table.fields())
      for (const Choice& choice : field.rules.choices)
        if (std::ranges::count(choice.flags, key) > 0) return {&field, &choice};
  return {};
}

std::vector<std::string> top_level_names() {
  std::vector<std::string> out;
  for (auto& section : sections()) {
    auto names = section.table.names();
    out.insert(out.end(), names.begin(), names.end());
  }
  return out;
}

std::string key_hint(const std::string& word, const Table* inside) {
  const auto mean = [](const std::string& key) { return fmt::format("; did you mean '{}'?", key); };
  // Names of the same settings in transformers, TRL and PEFT, which are not close by their letters.
  static const std::map<std::string, std::string> kOtherNames{{"lr", "learning_rate"},
                                                              {"epochs", "num_epochs"},
                                                              {"num_train_epochs", "num_epochs"},
                                                              {"max_length", "sequence_len"},
                                                              {"max_seq_len", "sequence_len"},
                                                              {"max_seq_length", "sequence_len"},
                                                              {"cutoff_len", "sequence_len"},
                                                              {"per_device_train_batch_size", "micro_batch_size"},
                                                              {"per_device_eval_batch_size", "eval_batch_size"},
                                                              {"model", "base_model"},
                                                              {"model_name_or_path", "base_model"},
                                                              {"dataset", "datasets"},
                                                              {"target_modules", "lora_target_modules"},
                                                              {"modules_to_save", "lora_modules_to_save"},
                                                              {"r", "lora_r"},
                                                              {"lora_rank", "lora_r"},
                                                              {"packing", "sample_packing"},
                                                              {"lr_scheduler_type", "lr_scheduler"}};
  if (inside) {
    if (const std::string near = closest(word, inside->names()); !near.empty()) return mean(near);
    return find_field(word).field ? "; it is a key of the top level of the recipe" : "";
  }
  if (const auto other = kOtherNames.find(word); other != kOtherNames.end()) return mean(other->second);
  if (table<DatasetEntry>().find(word)) return "; it is a key of an entry of 'datasets'";
  for (const Section& section : sections())
    for (const Field& field : section.table.fields())
      if (const Table* nested = field.codec->table(); nested && nested->find(word))
        return field.codec->schema(field).value("type", Json()) == "array"
                   ? fmt::format("; it is a key of an entry of '{}'", field.key)
                   : mean(field.key + "." + word);
  const std::string near = closest(word, top_level_names());
  return near.empty() ? "" : mean(near);
}

const Field* find_nested(std::string_view dotted) {
  const Table* inside = nullptr;
  const Field* field = nullptr;
  while (!dotted.empty()) {
    auto part = dotted.substr(0, dotted.find('.'));
    dotted.remove_prefix(std::min(part.size() + 1, dotted.size()));
    if (field && part.find_first_not_of("0123456789") == part.npos) continue;
    if (field && !inside) return field->codec->schema(*field).value("type", Json()) == "object" ? field : nullptr;
    field = inside ? inside->find(part) : find_field(part).field;
    if (!field) return nullptr;
    inside = field->codec->table();
  }
  return field;
}

namespace {

/// Whether a value requests nothing: it is neutral, empty, or an empty list.
bool requests_nothing(const Node& value, const UnmappedKey& key) {
  if (value.is_scalar()) return value.text.empty() || canonical_bool(value.text) == key.neutral;
  return value.items.empty();
}

std::string with_line(const std::string& path, Place place) {
  return place.line ? fmt::format("{} (line {})", path, place.line) : path;
}

void read_unmapped(const UnmappedKey& unmapped, const Node& key, const Node& value, const std::string& path,
                   Reading& reading) {
  if (requests_nothing(value, unmapped)) return;
  switch (unmapped.effect) {
    case Unmapped::inert:
      reading.inert.push_back(with_line(path, key.place));
      break;
    case Unmapped::unsupported:
      reading.unsupported[unmapped.why].push_back(with_line(path, key.place));
      break;
    case Unmapped::rejected:
      reading.report.error(key.place, fmt::format("'{}' is not supported: {}", path, unmapped.why));
      break;
  }
}

void unknown(const Node& key, const std::string& prefix, const Table* inside, Reading& reading) {
  if (!reading.report.wants_more()) return reading.report.error(key.place, "");
  reading.report.error(key.place,
                       fmt::format("unknown key '{}{}'{}", prefix, shown(key.text), key_hint(key.text, inside)));
}

void read_field(const Field& field, const Node& key, const Node& value, void* owner, const std::string& prefix,
                Reading& reading) {
  std::string path = prefix + field.key;
  if (value.is_null()) return;
  auto [first, is_new] = reading.given.emplace(path, value.place);
  if (!is_new) {
    const auto earlier = reading.values.find(path);  // an alias may repeat its key
    if (earlier != reading.values.end() && to_json(*earlier->second) == to_json(value)) return;
    const auto alias = reading.aliases.find(path);
    const Place at = first->second;
    return reading.report.error(key.place, fmt::format("'{}' is the same setting as '{}', which {}", prefix + key.text,
                                                       alias == reading.aliases.end() ? path : alias->second,
                                                       at.line ? fmt::format("line {} sets", at.line) : "is set, too"));
  }
  reading.values[path] = &value;
  if (key.text != field.key) reading.aliases[path] = prefix + key.text;
  const std::size_t errors = reading.report.errors();
  field.codec->read(value, field.member(owner), field, path, reading);
  reading.report.name_errors(errors, path);
}

}  // namespace

void read_table(const Table& table, const Node& map, void* owner, const std::string& prefix, Reading& reading) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const Node &key = map.keys[i], &value = map.items[i];
    if (const Field* field = table.find(key.text)) read_field(*field, key, value, owner, prefix, reading);
    else if (const UnmappedKey* unmapped = table.find_unmapped(key.text))
      read_unmapped(*unmapped, key, value, prefix + key.text, reading);
    else unknown(key, prefix, &table, reading);
  }
  for (const Field& field : table.fields())
    if (field.rules.required && !reading.given.contains(prefix + field.key))
      reading.report.error(map.place, fmt::format("'{}{}' is missing", prefix, field.key));
}

void Table::set_choices(std::string_view key, std::vector<Choice> choices) {
  for (Field& field : fields_)
    if (field.key == key) field.rules.choices = std::move(choices);
}

void read_recipe_map(const Node& map, Recipe& recipe, Reading& reading) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const Node &key = map.keys[i], &value = map.items[i];
    if (Found found = find_field(key.text); found.field)
      read_field(*found.field, key, value, found.section->of(recipe), "", reading);
    else if (const UnmappedKey* unmapped = other_keys().find_unmapped(key.text))
      read_unmapped(*unmapped, key, value, key.text, reading);
    else unknown(key, "", nullptr, reading);
  }
}

Json write_table(const Table& table, const void* owner) {
  Json out = Json::object();
  for (const Field& field : table.fields()) out[field.key] = field.write(owner);
  return out;
}

}  // namespace dml::recipe

namespace dml {

std::string setting_of(const std::string& key) {
  const std::string top = key.substr(0, key.find('.'));
  const recipe::Field* field = recipe::find_field(top).field;
  return field ? field->key + key.substr(top.size()) : key;
}

void set_choices(const std::string& key, std::vector<Choice> choices) {
  auto found = recipe::find_field(key);
  DML_CHECK(found.section, "no such key: {}", key);
  found.section->table.set_choices(key, std::move(choices));
}

}  // namespace dml
