// Fields of the sections about data and chat templates.
#include "recipe/codecs.h"

namespace dml::recipe {

template <>
const Table& table<PromptFormat>() {
  using S = PromptFormat;
  static const Table rows = [] {
    Table t(
        "type, as a table",
        "A custom instruction format. {instruction}, {input} and {system} are replaced; {{ and }} are literal braces.");
    t.defaults<S>();
    t.add("system_prompt", &S::system_prompt, "System text for rows that have none.", {.example = "Answer briefly."});
    t.add("system_format", &S::system_format, "Layout of a system text that is not empty.",
          {.example = "\"{system}\\n\""});
    t.add("field_system", &S::field_system, "Column of the system text.", {.example = "system"});
    t.add("field_instruction", &S::field_instruction, "Column of the instruction.", {.example = "question"});
    t.add("field_input", &S::field_input, "Column of the input.", {.example = "context"});
    t.add("field_output", &S::field_output, "Column of the answer, which is trained.", {.example = "answer"});
    t.add("format", &S::format, "Prompt layout for rows with an input.",
          {.example = "\"Q: {instruction} {input}\\nA:\""});
    t.add("no_input_format", &S::no_input_format, "Prompt layout for rows without an input.",
          {.example = "\"Q: {instruction}\\nA:\""});
    t.add("field_prompt", &S::field_prompt, "With rl: column of the prompt.", {.example = "question"});
    t.add("field_chosen", &S::field_chosen, "With rl: column of the preferred answer.", {.example = "good"});
    t.add("field_rejected", &S::field_rejected, "With rl: column of the rejected answer.", {.example = "bad"});
    t.add("field_completion", &S::field_completion, "With rl: kto: column of the answer.", {.example = "answer"});
    t.add("field_label", &S::field_label, "With rl: kto: column that says whether the answer is good.",
          {.example = "thumbs_up"});
    t.add("prompt_format", &S::prompt_format, "With rl: layout of the prompt; placeholders {prompt} and {system}.",
          {.example = "\"Q: {prompt}\\nA:\""});
    t.add("chosen_format", &S::chosen_format, "With rl: layout of the preferred answer.", {.example = "\" {chosen}\""});
    t.add("rejected_format", &S::rejected_format, "With rl: layout of the rejected answer.",
          {.example = "\" {rejected}\""});
    t.add("completion_format", &S::completion_format, "With rl: kto: layout of the answer.",
          {.example = "\" {completion}\""});
    return t;
  }();
  return rows;
}

template <>
const Table& table<ScoreFilter>() {
  using S = ScoreFilter;
  static const Table rows = [] {
    Table t("scores", "Rows to drop, by their losses.");
    t.defaults<S>();
    t.add("path", &S::path, "What `dml score` wrote; rows that are not in it are kept.",
          {.example = "scores.jsonl", .unset = "only drop", .path = true});
    t.add("max_loss", &S::max_loss, "Drop rows with a higher loss.", {.min = 0, .example = "6.0", .unset = "no limit"});
    t.add("min_loss", &S::min_loss, "Drop rows with a lower loss.", {.min = 0, .example = "0.05", .unset = "no limit"});
    t.add("drop", &S::drop, "Drop these rows, named by place.", {.example = "[\"train.jsonl:17\"]"});
    return t;
  }();
  return rows;
}

namespace {

// Fields that select the rows of a dataset.
void add_entry_files(Table& t) {
  using S = DatasetEntry;
  t.add("path", &S::path,
        "File, directory or pattern (`*`; `**/` is any number of directories): json, jsonl, csv, tsv or txt, plain "
        "or compressed (.gz, .zst, .xz, .bz2, .lz4), or in a .zip or .tar archive; parquet or arrow as they are. Or "
        "the name of a dataset of the Hub, downloaded when its cache lacks it: org/name, or org/name@revision. Of a "
        "directory, .txt files are read only where no others are.",
        {.example = "data/train.jsonl", .path = true, .required = true});
  t.add("type", &S::type,
        "Format of the rows: a name (`dml list prompts`), a table that describes a format, or nothing when rows are "
        "tokenized already.",
        {.example = "alpaca", .unset = "rows have input_ids and labels; in pretraining_dataset: pretrain"});
  t.add("name", &S::name,
        "Configuration of the dataset, as its card lists them (configs in README.md), or subdirectory of path to read.",
        {.example = "en", .unset = "the card's default, or all of path"});
  t.add("split", &S::split,
        "Name of the split, and optionally a slice of it: numbers of rows or percentages, counted from the end where "
        "negative; or several names: train+test.",
        {.example = "\"train[:20%]\""});
  t.add("data_files", &S::data_files,
        "Files inside path, or patterns of their names, as in path; no effect where path is a file.",
        {.example = "[a.jsonl, b.jsonl]", .unset = "all of path", .path = true});
  t.add("revision", &S::revision, "Branch, tag or commit, where path is the name of a dataset of the Hub.",
        {.example = "v1.1", .unset = "main"});
  t.add("ds_type", &S::ds_type,
        "File type, where the extension does not tell it; text: each line is a row, document: each .txt or .md file is "
        "one row.",
        {.choices = {{"json", "json"},
                     {"jsonl", "json"},
                     {"csv", "csv"},
                     {"tsv", "tsv"},
                     {"text", "text"},
                     {"txt", "text"},
                     {"document", "document"},
                     {"parquet", "parquet"},
                     {"arrow", "arrow"}},
         .example = "json",
         .unset = "by the file's extension; a text file of pretraining_dataset is a document"});
  t.add("shards", &S::shards, "Divide the rows into this many equal shards and read one of them.",
        {.min = 1, .example = "10", .unset = "all rows"});
  t.add("shards_idx", &S::shards_idx, "Index of the shard to read, from 0.", {.min = 0, .example = "0"});
  t.add("weight", &S::weight, "How often rows are used: 0.5 uses half of them, 2 uses each twice.",
        {.min = 0, .max = 1000, .above = true, .example = "0.5"});
  t.add("max_rows", &S::max_rows, "Maximum number of rows to read.",
        {.min = 1, .example = "1000", .unset = "all rows"});
  t.add("skip", &S::skip, "Number of leading rows to skip.", {.min = 0, .example = "100"});
}

// Fields that say how a row becomes a conversation.
void add_entry_messages(Table& t) {
  using S = DatasetEntry;
  t.add("chat_template", &S::chat_template, "Chat template of this dataset.",
        {.example = "chatml", .unset = "the recipe's chat_template"});
  t.add("chat_template_jinja", &S::chat_template_jinja, "Jinja template of this dataset: a text or a file.",
        {.example = "template.jinja", .unset = "the recipe's"});
  t.add("field_messages", &S::field_messages, "Field with the list of messages.", {.example = "conversations"});
  t.add("message_property_mappings", &S::message_property_mappings,
        "Message properties: the template's name → the name in the data.", {.example = "{role: from, content: value}"});
  t.add("message_columns", &S::message_columns,
        "Rows without a list of messages: the columns with the text of `user`, `assistant` and `system`. The text "
        "of one column is taken as it is; those of several columns of a role are trimmed and joined with a blank line.",
        {.example = "{user: Question, assistant: Answer}", .unset = "rows have field_messages"});
  t.add("field_tools", &S::field_tools, "Field with the tool definitions.", {.example = "tools"});
  t.add("field_system", &S::field_system, "Field with the system text of a conversation.",
        {.example = "system", .unset = "system; with rl and type chat_template: none, as in Axolotl"});
  t.add("field_thinking", &S::field_thinking, "Field of a message with its reasoning.",
        {.example = "reasoning", .unset = "none"});
  t.add("template_thinking_key", &S::template_thinking_key, "The template's name for the reasoning.",
        {.example = "reasoning_content"});
  t.add("roles", &S::roles, "Roles: the template's name → names in the data; replaces the built-in mapping.",
        {.example = "{user: [human], assistant: [gpt]}", .unset = "human is user; gpt and model are assistant"});
}

// Fields that select what is trained.
void add_entry_training(Table& t) {
  using S = DatasetEntry;
  t.add("roles_to_train", &S::roles_to_train, "Roles whose messages are trained; an empty list trains none.",
        {.example = "[assistant]"});
  t.add("train_on_turns", &S::train_on_turns,
        "How many of the last trainable turns of a conversation are trained: all, last, or a number.",
        {.min = 1, .words = {"all", "last"}, .example = "last"});
  t.add("train_on_eos", &S::train_on_eos,
        "Which EOS tokens are trained: turn (those that end trained turns), all, last, or none.", {.example = "turn"});
  t.add("train_on_eot", &S::train_on_eot, "The same for end-of-turn tokens.",
        {.example = "turn", .unset = "as train_on_eos"});
  t.add("message_field_training", &S::message_field_training,
        "Field of a message that says whether the message is trained.", {.example = "train", .unset = "none"});
  t.add("message_field_training_detail", &S::message_field_training_detail,
        "Field of a message that says which characters are trained.", {.example = "train_detail", .unset = "none"});
}

void add_entry_preferences(Table& t) {
  using S = DatasetEntry;
  t.add("field_chosen", &S::field_chosen, "With rl and type chat_template: field of the preferred answer.",
        {.example = "chosen_response"});
  t.add("field_rejected", &S::field_rejected, "With rl and type chat_template: field of the rejected answer.",
        {.example = "rejected_response"});
  t.add("field_margin", &S::field_margin,
        "With reward_model: column with the margin by which the chosen answer is to score higher; rows without it: 0.",
        {.example = "margin"});
  t.add("field_weight", &S::field_weight,
        "Column with the weight of the row's loss; rows without it weigh 1. The loss is a mean by weight; a row of "
        "weight 0 is not trained.",
        {.example = "weight", .unset = "every row weighs 1"});
  t.add("message_field_weight", &S::message_field_weight,
        "Type chat_template: field of a message with the weight of its tokens; messages without it weigh 1, those of "
        "weight 0 are not trained.",
        {.example = "weight", .unset = "every message weighs 1"});
  t.add("step_separator", &S::step_separator,
        "Type stepwise_supervised: text after every step; the step is judged at its last token.",
        {.example = "\"\\n\""});
  t.add("max_completion_length", &S::max_completion_length,
        "Type stepwise_supervised: the steps of a row are cut to this many tokens, before sequence_len applies.",
        {.min = 1, .max = 1 << 24, .example = "256", .unset = "sequence_len alone"});
  t.add("train_on_last_step_only", &S::train_on_last_step_only,
        "Type stepwise_supervised: only the last step's label is trained.", {.example = "true"});
}

}  // namespace

template <>
const Table& table<DatasetEntry>() {
  using S = DatasetEntry;
  static const Table rows = [] {
    Table t("datasets, test_datasets, pretraining_dataset: one entry",
            "A source of rows and how they become examples.");
    t.defaults<S>();
    add_entry_files(t);
    add_entry_messages(t);
    add_entry_training(t);
    t.add("drop_system_message", &S::drop_system_message, "Remove the system message.", {.example = "true"});
    t.add("split_thinking", &S::split_thinking, "Move <think>…</think> of an answer to template_thinking_key.",
          {.example = "true"});
    add_entry_preferences(t);
    t.add("field", &S::field, "Type completion: column of the text.", {.example = "body", .unset = "text"});
    t.add("text_column", &S::text_column, "Type pretrain: column of the text.", {.example = "body", .unset = "text"});
    t.inert("dml runs no code of datasets", {"trust_remote_code"});
    t.inert("rows are prepared as a stream; there is no need to divide them", {"preprocess_shards"});
    t.inert("it is for distillation (kd_*), which dml does not have", {"temperature", "logprobs_field"});
    t.inert("it is mapped to 'message_property_mappings'", {"message_field_role", "message_field_content"});
    t.reject("prompts are text", {"field_prompt_tokens"});
    t.reject("use type: chat_template with message_property_mappings and roles",
             {"conversation", "field_human", "field_model"});
    t.reject("describe the format with a table under 'type'", {"input_format", "input_transform"});
    return t;
  }();
  return rows;
}

namespace {

void add_packing(Table& t) {
  using S = DataSection;
  t.add("sample_packing", &S::sample_packing,
        "Pack several examples into one row of sequence_len tokens; they do not attend to each other.",
        {.example = "true", .unset = "false; true with pretraining_dataset"});
  t.add("eval_sample_packing", &S::eval_sample_packing, "The same for evaluation.",
        {.example = "true", .unset = "as sample_packing"});
  t.add("sample_packing_group_size", &S::sample_packing_group_size,
        "Number of examples that are packed together as a group.", {.min = 1, .example = "100000"});
  t.add("sample_packing_bin_size", &S::sample_packing_bin_size, "Maximum number of examples in one packed row.",
        {.min = 1, .example = "200"});
  t.add("sample_packing_sequentially", &S::sample_packing_sequentially, "Pack examples in the order of the data.",
        {.example = "true"});
}

// Fields about the order of the examples, and which are dropped.
void add_order(Table& t) {
  using S = DataSection;
  t.add("shuffle_merged_datasets", &S::shuffle_merged_datasets, "Shuffle the examples of all datasets together, once.",
        {.example = "false"});
  t.add("shuffle_before_merging_datasets", &S::shuffle_before_merging_datasets, "Shuffle each dataset before merging.",
        {.example = "true"});
  t.add("curriculum_sampling", &S::curriculum_sampling, "Keep the order of the data: no shuffling, in no epoch.",
        {.example = "true"});
  t.add("group_by_length", &S::group_by_length,
        "Put examples of similar length into the same micro-batch; with preferences, the same step.",
        {.example = "true"});
  t.add("dataset_exact_deduplication", &S::dataset_exact_deduplication,
        "Drop examples that equal an earlier one, even one that the weight of its dataset leaves out, and training "
        "examples that are in test_datasets.",
        {.example = "true"});
  t.add("dataset_near_deduplication", &S::dataset_near_deduplication,
        "Drop examples that nearly equal an earlier one, and training examples that nearly equal one in test_datasets.",
        {.example = "true"});
  t.add("scores", &S::scores, "Drop rows by the losses that `dml score` wrote.",
        {.example = "{path: scores.jsonl, max_loss: 6}", .unset = "no row is dropped by its loss"});
}

}  // namespace

Section data_section() {
  using S = DataSection;
  Table t("Data", "Training data, and how examples are cut, mixed and packed.");
  t.defaults<S>();
  t.add(
      "datasets", &S::datasets, "Training datasets; the keys of an entry are listed below.",
      {.example = "[{path: data/train.jsonl, type: alpaca}]", .unset = "required, unless pretraining_dataset is set"});
  t.add("test_datasets", &S::test_datasets, "Datasets for evaluation.",
        {.example = "[{path: data/test.jsonl, type: alpaca}]", .unset = "see val_set_size"});
  t.add("pretraining_dataset", &S::pretraining_dataset,
        "Plain-text datasets; documents longer than sequence_len are cut into several rows without loss.",
        {.example = "[{path: data/corpus.txt}]", .unset = "see datasets"});
  t.add("val_set_size", &S::val_set_size,
        "Examples held out for evaluation: a fraction below 1, or a number of examples.",
        {.min = 0, .max = 1e12, .example = "0.05"});
  t.add("dataset_prepared_path", &S::dataset_prepared_path, "Directory for prepared data, one folder for each content.",
        {.example = "prepared", .path = true});
  t.add("sequence_len", &S::sequence_len, "Maximum length of an example in tokens; length of a packed row.",
        {.min = 2, .max = 1 << 24, .example = "2048"});
  t.add("eval_sequence_len", &S::eval_sequence_len, "The same for evaluation.",
        {.min = 2, .max = 1 << 24, .example = "2048", .unset = "sequence_len"});
  t.add("excess_length_strategy", &S::excess_length_strategy,
        "What to do with examples longer than sequence_len: drop them, truncate them, raise an error, or split them "
        "after trained turns (split_turns), leaving out turns that do not fit. Plain text (completion, "
        "pretraining_dataset) is cut into several examples "
        "without loss instead.",
        {.example = "truncate"});
  t.add("min_sample_len", &S::min_sample_len, "Drop examples with fewer tokens.", {.min = 1, .example = "2"});
  t.add("train_on_inputs", &S::train_on_inputs, "Train on the prompts, too.", {.example = "true"});
  add_packing(t);
  add_order(t);
  t.add("dataset_shard_num", &S::dataset_shard_num,
        "Divide the merged training data into this many equal shards and train on one of them.",
        {.min = 1, .example = "4", .unset = "all rows"});
  t.add("dataset_shard_idx", &S::dataset_shard_idx, "Index of that shard, from 0.", {.min = 0, .example = "0"});
  t.add("on_bad_row", &S::on_bad_row,
        "What to do with a row that cannot be read: stop with an error, or skip it and report it.",
        {.example = "skip"});
  return {std::move(t), &Recipe::data};
}

Section template_section() {
  using S = TemplateSection;
  Table t("Chat template", "How conversations become text.");
  t.defaults<S>();
  t.add(
      "chat_template", &S::chat_template,
      "A built-in template (`dml list chat_templates`), tokenizer_default, tokenizer_default_fallback_NAME, or jinja.",
      {.example = "chatml", .unset = "the tokenizer's"});
  t.add("chat_template_jinja", &S::chat_template_jinja, "Jinja template: a text or a file.",
        {.example = "template.jinja", .unset = "none"});
  t.add("chat_template_kwargs", &S::chat_template_kwargs, "Variables passed to the template.",
        {.example = "{enable_thinking: false}"});
  t.add("eot_tokens", &S::eot_tokens, "End-of-turn tokens.", {.example = "[\"<|im_end|>\"]", .unset = "the eos token"});
  t.add("default_system_message", &S::default_system_message, "System message for conversations without one.",
        {.example = "You are helpful.", .unset = "the template's"});
  return {std::move(t), &Recipe::templates};
}

}  // namespace dml::recipe
