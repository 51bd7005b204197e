// A recipe's sections about data and chat templates (recipe/recipe.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "recipe/choices.h"

namespace dml {

/// `type:` as a table: a custom instruction format. Placeholders are {instruction}, {input} and {system}; {{ and }} are
/// braces.
struct PromptFormat {
  std::string system_prompt;
  std::string system_format = "{system}";
  std::string field_system = "system";
  std::string field_instruction = "instruction";
  std::string field_input = "input";
  std::string field_output = "output";
  std::string format = "{instruction} {input} ";
  std::string no_input_format = "{instruction} ";
  // preference data
  std::string field_prompt = "prompt", field_chosen = "chosen", field_rejected = "rejected";
  std::string field_completion = "completion", field_label = "label";
  std::string prompt_format = "{prompt}", chosen_format = "{chosen}", rejected_format = "{rejected}";
  std::string completion_format = "{completion}";
  bool operator==(const PromptFormat&) const = default;
};

/// `type:` of a dataset: a name in the prompt registry, a table, or nothing (rows are already token ids).
struct DatasetType {
  std::string name;
  std::optional<PromptFormat> format;
  bool pre_tokenized() const { return name.empty() && !format; }
  /// Whether rows are conversations that a chat template turns into text.
  bool applies_chat_template() const {
    return !format && (name.starts_with("chat_template") || name == "openai" || name.starts_with("sharegpt") ||
                       name.starts_with("bradley_terry.chat_template"));
  }
  bool operator==(const DatasetType&) const = default;
};

struct DatasetEntry {
  std::string path;  // file, directory or glob
  DatasetType type;
  std::optional<std::string> name;      // subset inside a directory
  std::string split = "train";          // "train", "train[:20%]", …
  std::vector<std::string> data_files;  // under path
  std::optional<std::string> revision;  // revision of a dataset of the Hub
  std::optional<std::string> ds_type;   // json, csv, tsv, text, document; unset: by extension
  std::optional<std::int64_t> shards;   // keep one of so many shards of the rows …
  std::int64_t shards_idx = 0;          // … the one with this index
  double weight = 1;                    // 0.5: half of the rows; 2: every row twice
  std::optional<std::int64_t> max_rows;
  std::int64_t skip = 0;  // number of leading rows to skip
  // conversations
  std::optional<std::string> chat_template;        // unset: the recipe's, else the tokenizer's
  std::optional<std::string> chat_template_jinja;  // text or file
  std::string field_messages = "messages";
  std::map<std::string, std::string> message_property_mappings = {{"content", "content"}, {"role", "role"}};
  std::map<std::string, std::vector<std::string>>
      message_columns;  // role → columns; empty: rows have a list of messages
  std::string field_tools = "tools";
  std::optional<std::string> field_system;  // unset: "system", but none for preferences
  std::optional<std::string> field_thinking;
  std::string template_thinking_key = "reasoning_content";
  std::optional<std::map<std::string, std::vector<std::string>>> roles;  // role of the template → spellings in the data
  std::vector<std::string> roles_to_train = {"assistant"};
  std::int64_t train_on_turns = 0;  // the last N turns of roles_to_train; 0: all of them
  TrainOnEnd train_on_eos = TrainOnEnd::turn;
  std::optional<TrainOnEnd> train_on_eot;  // unset: as train_on_eos
  std::optional<std::string> message_field_training;
  std::optional<std::string> message_field_training_detail;
  bool drop_system_message = false, split_thinking = false;
  std::string field_chosen = "chosen", field_rejected = "rejected";  // preference data
  std::string field_margin = "margin";                               // of a reward model's pairs
  std::optional<std::string> field_weight, message_field_weight;     // loss weight of a row, of a message
  std::string step_separator = "\n";                                 // type stepwise_supervised: text after every step
  std::optional<std::int64_t> max_completion_length;                 // … and maximum number of tokens of all steps
  bool train_on_last_step_only = false;
  // plain text and instruction rows
  std::optional<std::string> field;        // completion: the column; unset: "text"
  std::optional<std::string> text_column;  // pretraining: the column; unset: "text"
  bool operator==(const DatasetEntry&) const = default;
};

/// Filters rows by the losses that `dml score` has written.
struct ScoreFilter {
  std::string path;                          // "": no filter
  std::optional<double> max_loss, min_loss;  // rows outside are dropped
  std::vector<std::string> drop;             // rows to drop, as "FILE:LINE"
  bool operator==(const ScoreFilter&) const = default;
};

struct DataSection {
  RowKind rows = RowKind::text;  // not a key; see RowKind
  std::vector<DatasetEntry> datasets, test_datasets, pretraining_dataset;
  double val_set_size = 0;  // below 1: share of the rows; otherwise number of rows
  std::string dataset_prepared_path = "last_run_prepared";
  std::int64_t sequence_len = 512;
  std::int64_t completion_len = 0;  // not a key: tokens that are generated after a prompt, part of sequence_len
  std::optional<std::int64_t> eval_sequence_len;  // unset: sequence_len
  ExcessLength excess_length_strategy = ExcessLength::drop;
  std::int64_t min_sample_len = 2;
  bool train_on_inputs = false;
  bool sample_packing = false;
  bool eval_sample_packing = false;  // unset in the recipe: as sample_packing
  std::int64_t sample_packing_group_size = 100000;
  std::int64_t sample_packing_bin_size = 200;  // maximum number of examples in a row
  bool sample_packing_sequentially = false;
  bool shuffle_merged_datasets = true;
  bool shuffle_before_merging_datasets = false;
  bool curriculum_sampling = false;  // keep the order of the data
  bool group_by_length = false;
  bool dataset_exact_deduplication = false;
  bool dataset_near_deduplication = false;
  ScoreFilter scores;
  std::optional<std::int64_t> dataset_shard_num;  // train on one shard of the merged data
  std::int64_t dataset_shard_idx = 0;
  BadRow on_bad_row = BadRow::error;

  bool has_validation() const { return val_set_size > 0 || !test_datasets.empty(); }
  bool operator==(const DataSection&) const = default;
};

struct TemplateSection {
  std::optional<std::string> chat_template;        // a built-in name, tokenizer_default[_fallback_NAME] or jinja
  std::optional<std::string> chat_template_jinja;  // text or file
  Json chat_template_kwargs = Json::object();
  std::optional<std::vector<std::string>> eot_tokens;  // unset: the EOS token
  std::optional<std::string> default_system_message;
  bool operator==(const TemplateSection&) const = default;
};

}  // namespace dml
