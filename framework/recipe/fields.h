// The field list: one row per setting, from which everything else about it comes: reading with errors, help, the JSON
// Schema, the reference page, the resolved recipe, the digest of the data.
//
// A row names the key, the member it fills, what it means, and its Rules. Its default is the member's initialiser in
// recipe.h; its type is the member's, through a Codec. A struct that has a Table of its own is a type like any other.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "recipe/node.h"
#include "recipe/recipe.h"

namespace dml::recipe {

struct Rules {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above = false;                   // min itself is too small
  std::optional<double> off = {};       // optional numbers: values from here up to min mean "none"
  std::vector<Choice> choices = {};     // texts: every spelling, and the value each stands for (set_choices)
  std::vector<std::string> words = {};  // integers: names for 0, 1, 2 …; enumerations: the only spellings allowed
  std::vector<std::string> aliases = {};
  std::string example = {};
  std::string unset = {};  // what happens without a value, where the default does not say it
  bool path = false;       // `~` is expanded
  bool required = false;   // of an entry
  bool data = false;       // decides what the prepared data are
  bool pairs = false;      // tables: may also be written "k=v,k=v"
};

class Table;
struct Field;

/// Inputs and results of reading a recipe.
struct Reading {
  Report& report;
  std::map<std::string, Place> given = {};  // "lora_r", "datasets.0.path": settings that have a value
  std::set<std::string> off = {};           // of these, the ones whose value means "none" (eval_steps: 0)
  std::vector<std::string> inert = {};      // "bf16 (line 3)": settings without effect
  std::map<std::string, std::vector<std::string>> undone = {};  // what will not happen → the settings that ask for it
};

/// How values of one type are read, written and described. `path` is the whole name of the setting ("datasets.0.path").
class Codec {
 public:
  virtual ~Codec() = default;
  /// Null nodes are never passed.
  virtual void read(const Node& node, void* to, const Field& field, const std::string& path,
                    Reading& reading) const = 0;
  /// Null when unset.
  virtual Json write(const void* from, const Field& field) const = 0;
  /// "an integer of at least 1", for errors and docs.
  virtual std::string expects(const Field& field) const = 0;
  virtual Json schema(const Field& field) const = 0;
  virtual const Table* table() const { return nullptr; }  // of the struct, or of a list's entries
};

/// The codec of a member's type; instances live in codecs.h.
template <class T>
const Codec& codec();

struct Field {
  std::string key;
  const Codec* codec = nullptr;
  std::function<void*(void*)> member;  // owner → value
  std::string help;
  Rules rules;

  std::string expects() const { return codec->expects(*this); }
  Json write(const void* owner) const { return codec->write(member(const_cast<void*>(owner)), *this); }
};

/// The treatment of a key that sets no member of Recipe.
enum class Unfilled {
  inert,    // accepted: it has no effect on a CPU, or dml does it in another way
  undone,   // accepted with a notice of its own: it asks for something that will not happen
  refused,  // an error, unless it is off
};

/// A key of Axolotl's that fills nothing. A final `*` matches any ending.
struct Known {
  std::string key, why;
  Unfilled effect;
};

class Table {
 public:
  Table(std::string title, std::string intro) : title_(std::move(title)), intro_(std::move(intro)) {}

  template <class S, class T>
  Table& add(const char* key, T S::*member, const char* help, Rules rules = {});
  Table& inert(const char* why, const std::vector<std::string>& keys) { return known(Unfilled::inert, why, keys); }
  Table& undone(const char* why, const std::vector<std::string>& keys) { return known(Unfilled::undone, why, keys); }
  Table& refuse(const char* why, const std::vector<std::string>& keys) { return known(Unfilled::refused, why, keys); }
  /// Values of an owner that nothing was read into, for the defaults of the docs.
  template <class S>
  Table& defaults() {
    static const S fresh{};
    fresh_ = &fresh;
    return *this;
  }

  const std::string& title() const { return title_; }
  const std::string& intro() const { return intro_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<Known>& known() const { return known_; }
  const void* fresh() const { return fresh_; }
  const Field* find(std::string_view key) const;  // by key or alias
  /// The values of a key whose names belong to another folder.
  void set_choices(std::string_view key, std::vector<Choice> choices);
  const Known* find_known(std::string_view key) const;
  /// Every key and alias.
  std::vector<std::string> names() const;

 private:
  Table& known(Unfilled effect, const char* why, const std::vector<std::string>& keys);

  std::string title_, intro_;
  std::vector<Field> fields_;
  std::vector<Known> known_;
  const void* fresh_ = nullptr;
};

/// The table of a struct that is a table in a recipe.
template <class S>
const Table& table();
template <>
const Table& table<SpecialTokens>();
template <>
const Table& table<DatasetEntry>();
template <>
const Table& table<PromptFormat>();
template <>
const Table& table<LrGroup>();
template <>
const Table& table<ScoreFilter>();
template <>
const Table& table<DynamicCheckpoint>();
template <>
const Table& table<EvalEntry>();
template <>
const Table& table<TrlSettings>();

/// The top level of a recipe: one table per section, and how to get from the Recipe to it.
struct Section {
  Table table;
  std::function<void*(Recipe&)> of;
};
std::vector<Section>& sections();
Section model_section();
Section adapter_section();
Section data_section();
Section template_section();
Section optim_section();
Section train_section();
Section evaluation_section();
Section preference_section();
Section distribution_section();
Section generation_section();
Section log_section();
Section plugin_section();
/// Axolotl's keys that fill nothing here.
const Table& other_keys();

/// A top-level field by key or alias.
struct Found {
  Section* section = nullptr;
  const Field* field = nullptr;
};
Found find_field(std::string_view key);
/// A key that means one value of another, where it is true (Choice::flag); null pointers when there is none.
struct Flag {
  const Field* field = nullptr;
  const Choice* choice = nullptr;
  explicit operator bool() const { return field != nullptr; }
};
Flag find_flag(std::string_view key);
/// Every key and alias of the top level.
std::vector<std::string> top_level_names();
/// The field of a dotted name ("datasets.0.path", "datasets.path", "model_config.hidden_size"); null when there is
/// none.
const Field* find_nested(std::string_view dotted);

/// Fills `owner` from a map: unknown keys, keys without effect, values. `prefix` is "" or "datasets.0.".
void read_table(const Table& table, const Node& map, void* owner, const std::string& prefix, Reading& reading);
void read_recipe_map(const Node& map, Recipe& recipe, Reading& reading);
/// Every field in order; unset ones are null.
Json write_table(const Table& table, const void* owner);

}  // namespace dml::recipe
