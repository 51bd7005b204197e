// The field list: one row per setting. Everything else is derived from it: reading with errors, help, the JSON Schema,
// the reference page, the resolved recipe, the digest of the data.
//
// A row has the key, the member of Recipe that it sets, its help and its Rules. The default is the member's initializer
// in recipe.h; the type is the member's, with a Codec. Structs with their own Table are such types, too.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "recipe/node.h"
#include "recipe/recipe.h"

namespace dml::recipe {

struct Rules {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above = false;                // min itself is not allowed
  std::optional<double> off = {};    // optional numbers: values in [off, min) mean "none"
  std::vector<Choice> choices = {};  // texts: every spelling with its value (set_choices)
  bool open = false;                 // texts: plug-ins may add choices
  /// Texts: the nearest choice for a value that only other programs have; "" if there is none.
  std::string (*nearest)(const std::string& value) = nullptr;
  std::vector<std::string> words = {};  // integers: names of 0, 1, 2 …; enumerations: the allowed spellings, if not all
  std::vector<std::string> aliases = {};
  std::string example = {};
  std::string unset = {};  // help: what happens without a value, if the default does not say it
  bool path = false;       // `~` is expanded
  bool required = false;   // in every entry of a list
  bool pairs = false;      // tables: "k=v,k=v" is accepted, too
};

class Table;
struct Field;

/// Two ways to give one setting, of which a recipe has one at most. On the command line, one replaces the other.
inline constexpr std::array<std::pair<const char*, const char*>, 5> kAlternatives{
    {{"gradient_accumulation_steps", "batch_size"},
     {"warmup_steps", "warmup_ratio"},
     {"embedding_lr", "embedding_lr_scale"},
     {"eval_steps", "evals_per_epoch"},
     {"save_steps", "saves_per_epoch"}}};

/// Names of one setting, β, as far as the method of `rl` reads them (check_preference).
inline constexpr std::array<const char*, 3> kBetas{"rl_beta", "orpo_alpha", "trl.beta"};

/// Inputs and results of reading a recipe.
struct Reading {
  Report& report;
  std::map<std::string, Place> given = {};          // settings with a value, by name: "lora_r", "datasets.0.path"
  std::map<std::string, const Node*> values = {};   // their values, in the recipe's tree
  std::map<std::string, std::string> aliases = {};  // settings given by another name: "rl_beta" → "dpo_beta"
  std::set<std::string> off = {};                   // the ones of them whose value means "none" (eval_steps: 0)
  std::vector<std::string> inert = {};              // settings without effect: "fp16 (line 3)"
  std::map<std::string, std::vector<std::string>> unsupported =
      {};  // reason → the settings that request something dml does not do
};

/// How values of one type are read, written and described. `path` is the full name of the setting ("datasets.0.path").
class Codec {
 public:
  virtual ~Codec() = default;
  /// Sets `to`, or adds errors to the report. `node` is not null.
  virtual void read(const Node& node, void* to, const Field& field, const std::string& path,
                    Reading& reading) const = 0;
  /// Null if unset.
  virtual Json write(const void* from, const Field& field) const = 0;
  /// "an integer of at least 1", for errors and docs.
  virtual std::string expects(const Field& field) const = 0;
  virtual Json schema(const Field& field) const = 0;
  virtual const Table* table() const { return nullptr; }  // of a struct, or of the entries of a list
};

/// The codec of a member's type; instances live in codecs.h.
template <class T>
const Codec& codec();

struct Field {
  std::string key;
  const Codec* codec = nullptr;
  std::function<void*(void*)> member;  // owner → member
  std::string help;
  Rules rules;

  std::string expects() const { return codec->expects(*this); }
  Json write(const void* owner) const { return codec->write(member(const_cast<void*>(owner)), *this); }
};

/// The treatment of a key that corresponds to no member of Recipe, unless its value is empty or neutral.
enum class Unmapped {
  inert,        // accepted: no effect on a CPU, or dml does it in another way
  unsupported,  // accepted with a notice: dml does not do what it requests
  rejected,     // an error
};

/// A key of Axolotl that corresponds to no member of Recipe. A final `*` matches any ending.
struct UnmappedKey {
  std::string key, why;
  Unmapped effect;
  std::string neutral;  // the value that asks for nothing that dml does not do anyway, as JSON: false, true, 1
};

class Table {
 public:
  Table(std::string title, std::string intro) : title_(std::move(title)), intro_(std::move(intro)) {}

  template <class S, class T>
  Table& add(const char* key, T S::*member, const char* help, Rules rules = {});
  Table& inert(const char* why, const std::vector<std::string>& keys) { return unmapped(Unmapped::inert, why, keys); }
  Table& unsupported(const char* why, const std::vector<std::string>& keys, const char* neutral = "false") {
    return unmapped(Unmapped::unsupported, why, keys, neutral);
  }
  Table& reject(const char* why, const std::vector<std::string>& keys, const char* neutral = "false") {
    return unmapped(Unmapped::rejected, why, keys, neutral);
  }
  /// Uses a default-constructed S as the source of the defaults in the docs.
  template <class S>
  Table& defaults() {
    static const S fresh{};
    default_owner_ = &fresh;
    return *this;
  }

  const std::string& title() const { return title_; }
  const std::string& intro() const { return intro_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<UnmappedKey>& unmapped() const { return unmapped_; }
  const void* default_owner() const { return default_owner_; }
  const Field* find(std::string_view key) const;  // by key or alias
  /// Sets the values of a key that are defined in another folder.
  void set_choices(std::string_view key, std::vector<Choice> choices);
  const UnmappedKey* find_unmapped(std::string_view key) const;  // by name, or else by a pattern
  /// Every key and alias.
  std::vector<std::string> names() const;

 private:
  Table& unmapped(Unmapped effect, const char* why, const std::vector<std::string>& keys,
                  const char* neutral = "false");

  std::string title_, intro_;
  std::vector<Field> fields_;
  std::vector<UnmappedKey> unmapped_;
  const void* default_owner_ = nullptr;
};

/// The table of a struct.
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

/// A part of the top level of a recipe: its table, and the member of Recipe that it sets.
struct Section {
  template <class S>
  Section(Table fields, S Recipe::*member)
      : table(std::move(fields)),
        at_([member](Recipe& r) -> S* { return &(r.*member); }),
        read_at_([member](const Recipe& r) -> const S* { return &(r.*member); }) {}
  void* of(Recipe& recipe) const { return at_(recipe); }
  const void* of(const Recipe& recipe) const { return read_at_(recipe); }

  Table table;

 private:
  std::function<void*(Recipe&)> at_;
  std::function<const void*(const Recipe&)> read_at_;
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
/// Axolotl's keys that correspond to no member of Recipe.
const Table& other_keys();

/// A top-level field by key or alias.
struct Found {
  Section* section = nullptr;
  const Field* field = nullptr;
};
Found find_field(std::string_view key);
/// A boolean key that stands for a value of another key (Choice::flags); null pointers if there is none.
struct Flag {
  const Field* field = nullptr;
  const Choice* choice = nullptr;
  explicit operator bool() const { return field != nullptr; }
};
Flag find_flag(std::string_view key);
/// Every key and alias of the top level.
std::vector<std::string> top_level_names();
/// What to write instead of an unknown key of `inside` (null: of the top level), as the end of an error: "; did you
/// mean 'lora_alpha'?"; "" if nothing is like it.
std::string key_hint(const std::string& word, const Table* inside);
/// The field of a dotted name ("datasets.0.path", "datasets.path", "model_config.hidden_size"); null if there is none.
const Field* find_nested(std::string_view dotted);

/// Reads a map into `owner`, a struct of the table's type. `prefix` is "" or "datasets.0.".
void read_table(const Table& table, const Node& map, void* owner, const std::string& prefix, Reading& reading);
void read_recipe_map(const Node& map, Recipe& recipe, Reading& reading);
/// Every field in the order of the table; unset ones are null.
Json write_table(const Table& table, const void* owner);

}  // namespace dml::recipe
