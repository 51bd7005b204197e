// Documentation from the field list: the help of a key, recipes/REFERENCE.md.
#include <fmt/format.h>

#include "core/error.h"
#include "recipe/codecs.h"

namespace dml {
namespace recipe {
namespace {

std::string yaml_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : dump(value);
}

/// The default of a field as text: "64", "see X", or "" if it has none.
std::string default_text(const Field& field, const void* fresh) {
  if (!field.rules.unset.empty()) return field.rules.unset;
  if (field.codec->table()) return field.rules.required ? "required" : "none";
  std::string text = yaml_text(field.write(fresh));
  if (text.empty() || text == "[]" || text == "{}") return field.rules.required ? "required" : "none";
  return text;
}

/// The type of a field as text; keys of a table, or of a list of tables, have their own entries.
std::string type_text(const Field& field) {
  return field.codec->table() && field.codec->schema(field).value("type", Json()) == "array" ? "a list of tables"
                                                                                             : field.expects();
}

std::string spellings(const Field& field) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const auto& choice : field.rules.choices) {
    if (choice.spelling != choice.value) add(fmt::format("{} = {}", choice.spelling, choice.value));
    for (const auto& flag : choice.flags) add(fmt::format("{}: true = {}", flag, choice.value));
  }
  return out;
}

std::string help_text(const std::string& name, const Field& field, const void* fresh) {
  std::string out = fmt::format("{}\n  {}\n\n  type     {}\n  default  {}\n", name, field.help, type_text(field),
                                default_text(field, fresh));
  if (!field.rules.example.empty()) out += fmt::format("  example  {}: {}\n", field.key, field.rules.example);
  if (!field.rules.aliases.empty()) out += fmt::format("  also     {}\n", fmt::join(field.rules.aliases, ", "));
  if (auto other = spellings(field); !other.empty()) out += fmt::format("  values   {}\n", other);
  if (const Table* inside = field.codec->table()) {
    std::vector<std::string> names;
    for (const auto& f : inside->fields()) names.push_back(f.key);
    out += fmt::format("  keys     {}\n", fmt::join(names, ", "));
  }
  return out;
}

/// The allowed values of a field; empty if it is not an enumeration.
std::vector<std::string> allowed_values(const Field& field) {
  const Json schema = field.codec->schema(field);
  std::vector<std::string> out;
  if (schema.value("type", Json()) == "boolean") return {"true", "false"};
  for (const Json& value : schema.value("enum", Json::array())) out.push_back(yaml_text(value));
  return out;
}

std::string escaped(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != text.npos; i += 2) text.insert(i, "\\");
  return text;
}

void add_table(std::string& out, const Table& table, const char* heading) {
  out += fmt::format("\n{} {}\n\n{}\n\n| key | meaning | type | default | example |\n|---|---|---|---|---|\n", heading,
                     table.title(), table.intro());
  for (const Field& field : table.fields()) {
    std::string also =
        field.rules.aliases.empty() ? "" : fmt::format(" Also: `{}`.", fmt::join(field.rules.aliases, "`, `"));
    std::string example = field.rules.example.empty() ? "" : fmt::format("`{}`", field.rules.example);
    out +=
        fmt::format("| `{}` | {}{} | {} | {} | {} |\n", field.key, escaped(field.help), also, escaped(type_text(field)),
                    escaped(default_text(field, table.default_owner())), escaped(example));
  }
}

// The keys of this name in tables other than datasets.
std::string others_of_name(const std::string& key) {
  std::vector<std::string> out;
  for (auto& section : sections())
    for (const Field& field : section.table.fields())
      if (const Table* inside = field.codec->table(); inside && inside != &table<DatasetEntry>() && inside->find(key))
        out.push_back(fmt::format("{}.{}", field.key, key));
  return out.empty() ? "" : fmt::format("  see also dml help {}\n", fmt::join(out, ", dml help "));
}

std::string unmapped_help(const std::string& name, const UnmappedKey& unmapped) {
  return fmt::format("{}\n  {}: {}.\n", name,
                     unmapped.effect == Unmapped::inert         ? "Accepted, without effect"
                     : unmapped.effect == Unmapped::unsupported ? "Accepted, but not done"
                                                                : "Not supported",
                     unmapped.why);
}

// The help of a key of a nested table by its own name; "" if there is none. That of datasets comes first.
std::string nested_unmapped_help(const std::string& key) {
  if (const UnmappedKey* unmapped = table<DatasetEntry>().find_unmapped(key))
    return unmapped_help("datasets." + key, *unmapped) + others_of_name(key);
  for (auto& section : sections())
    for (const Field& field : section.table.fields())
      if (const Table* inside = field.codec->table())
        if (const UnmappedKey* unmapped = inside->find_unmapped(key))
          return unmapped_help(field.key + "." + key, *unmapped);
  return "";
}

}  // namespace

}  // namespace recipe

using namespace recipe;

std::vector<std::string> keys() {
  std::vector<std::string> out;
  for (auto& section : sections())
    for (const auto& field : section.table.fields()) out.push_back(field.key);
  return out;
}

std::vector<KeySection> key_sections() {
  std::vector<KeySection> out;
  for (auto& section : sections()) {
    KeySection part{section.table.title(), section.table.intro(), {}};
    for (const Field& field : section.table.fields()) {
      KeyHelp key{field.key,
                  field.help,
                  type_text(field),
                  default_text(field, section.table.default_owner()),
                  {},
                  allowed_values(field),
                  field.rules.path};
      if (!field.rules.example.empty()) key.example = fmt::format("{}: {}", field.key, field.rules.example);
      part.keys.push_back(std::move(key));
    }
    out.push_back(std::move(part));
  }
  return out;
}

std::string help_for(const std::string& key) {
  if (const Field* field = find_nested(key)) {
    auto dot = key.rfind('.');
    const Field* parent = dot == key.npos ? nullptr : find_nested(key.substr(0, dot));
    Found top = find_field(key);
    const Table* inside = parent ? parent->codec->table() : top.field ? &top.section->table : nullptr;
    if (inside) return help_text(parent ? key : field->key, *field, inside->default_owner());
  }
  if (const Field* field = table<DatasetEntry>().find(key))
    return help_text("datasets." + field->key, *field, table<DatasetEntry>().default_owner()) + others_of_name(key);
  if (const Flag flag = find_flag(key))
    return fmt::format("{}\n  true: {}: {}. See `dml help {}`.\n", key, flag.field->key, flag.choice->value,
                       flag.field->key);
  const auto dot = key.rfind('.');
  const Field* parent = dot == key.npos ? nullptr : find_nested(key.substr(0, dot));
  const Table* inside = parent ? parent->codec->table() : nullptr;
  const std::string name = inside ? key.substr(dot + 1) : key;
  if (const UnmappedKey* unmapped = inside ? inside->find_unmapped(name) : other_keys().find_unmapped(key))
    return unmapped_help(key, *unmapped);
  if (const std::string help = inside ? "" : nested_unmapped_help(key); !help.empty()) return help;
  throw UserError("unknown key '{}'{}", shown(key), key_hint(name, inside));
}

std::string reference_markdown() {
  std::string out =
      "# Recipe reference\n\n"
      "Generated from the field list in framework/recipe; a test keeps it current. Keys are Axolotl's, values are "
      "YAML. A key\n"
      "with an empty value is not set. `dml help KEY` explains one key. Every key can be set on the command line as "
      "well:\n"
      "`--learning_rate 1e-4`, `--datasets.0.path rows.jsonl`. Where a command has an option of the same name "
      "(`--adapter DIR` of\n"
      "merge, evaluate and infer), the option wins; set the key in the recipe.\n";
  for (auto& section : sections()) {
    add_table(out, section.table, "##");
    if (section.table.find("special_tokens")) add_table(out, table<SpecialTokens>(), "###");
    if (section.table.find("lr_groups")) add_table(out, table<LrGroup>(), "###");
    if (section.table.find("scores")) add_table(out, table<ScoreFilter>(), "###");
    if (section.table.find("dynamic_checkpoint")) add_table(out, table<DynamicCheckpoint>(), "###");
    if (section.table.find("trl")) add_table(out, table<TrlSettings>(), "###");
    if (section.table.find("evals")) add_table(out, table<EvalEntry>(), "###");
    if (section.table.find("datasets")) {
      add_table(out, table<DatasetEntry>(), "###");
      add_table(out, table<PromptFormat>(), "###");
    }
  }
  out += "\n## Other names of values\n\n| key | name | meaning |\n|---|---|---|\n";
  for (auto& section : sections())
    for (const Field& field : section.table.fields())
      for (const auto& choice : field.rules.choices) {
        if (choice.spelling != choice.value)
          out += fmt::format("| `{}` | `{}` | `{}`{} |\n", field.key, choice.spelling, choice.value,
                             choice.notice.empty() ? "" : ": " + choice.notice);
        for (const auto& flag : choice.flags)
          out += fmt::format("| `{}` | `{}: true` | `{}` |\n", field.key, flag, choice.value);
      }
  for (auto [effect, heading] : {std::pair{Unmapped::inert, "Accepted: mapped to another key, or without effect"},
                                 {Unmapped::unsupported, "Accepted, but not done (with a notice)"},
                                 {Unmapped::rejected, "Refused, unless empty or false"}}) {
    out += fmt::format("\n## {}\n\n| keys | why |\n|---|---|\n", heading);
    const auto& unmapped = other_keys().unmapped();
    for (std::size_t i = 0; i < unmapped.size();) {
      std::vector<std::string> group;
      std::size_t first = i;
      for (; i < unmapped.size() && unmapped[i].why == unmapped[first].why; ++i)
        group.push_back("`" + unmapped[i].key + "`");
      if (unmapped[first].effect == effect)
        out += fmt::format("| {} | {} |\n", fmt::join(group, ", "), unmapped[first].why);
    }
  }
  return out;
}

}  // namespace dml
