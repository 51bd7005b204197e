// Rows of the sections about data and chat templates.
#include "recipe/codecs.h"

namespace dml::recipe {

template <>
const Table& table<PromptFormat>() {
  using S = PromptFormat;
  static const Table rows = [] {
    Table t(
        "type, as a table",
        "An instruction format of one's own. {instruction}, {input} and {system} are replaced; {{ and }} are braces.");
    t.defaults<S>();
    t.add("system_prompt", &S::system_prompt, "System text of rows without their own.", {.example = "Answer briefly."});
    t.add("system_format", &S::system_format, "How a system text that is not empty is placed.",
          {.example = "\"{system}\\n\""});
    t.add("field_system", &S::field_system, "Field of the system text.", {.example = "system"});
    t.add("field_instruction", &S::field_instruction, "Field of the instruction.", {.example = "question"});
    t.add("field_input", &S::field_input, "Field of the input.", {.example = "context"});
    t.add("field_output", &S::field_output, "Field of the answer, which is learned.", {.example = "answer"});
    t.add("format", &S::format, "Prompt of rows with an input.", {.example = "\"Q: {instruction} {input}\\nA:\""});
    t.add("no_input_format", &S::no_input_format, "Prompt of rows without an input.",
          {.example = "\"Q: {instruction}\\nA:\""});
    return t;
  }();
  return rows;
}

template <>
const Table& table<DatasetEntry>() {
  using S = DatasetEntry;
  static const Table rows = [] {
    Table t("datasets, test_datasets, pretraining_dataset: one entry", "A source of rows and how they become text.");
    t.defaults<S>();
    t.add("path", &S::path, "File, directory or pattern (`*`): json, jsonl, csv, tsv or txt, also .gz and .zst.",
          {.example = "data/train.jsonl", .path = true, .required = true});
    t.add("type", &S::type,
          "Format of the rows (`dml list`), a table that describes one, or nothing: rows are already tokens.",
          {.example = "alpaca", .unset = "rows hold input_ids and labels; in pretraining_dataset: pretrain"});
    t.add("name", &S::name, "Subset: a directory inside path.", {.example = "en", .unset = "all of path"});
    t.add("split", &S::split, "Split, and which part of it.", {.example = "\"train[:20%]\""});
    t.add("data_files", &S::data_files, "Files inside path.",
          {.example = "[a.jsonl, b.jsonl]", .unset = "all of path", .path = true});
    t.add("ds_type", &S::ds_type, "Kind of file, where the ending does not tell it.",
          {.choices = {{"json", "json"},
                       {"jsonl", "json"},
                       {"csv", "csv"},
                       {"tsv", "tsv"},
                       {"text", "text"},
                       {"txt", "text"},
                       {"parquet", "parquet"},
                       {"arrow", "arrow"}},
           .example = "json",
           .unset = "by the file's ending"});
    t.add("shards", &S::shards, "Take one of so many equal parts of the rows.",
          {.min = 1, .example = "10", .unset = "all rows"});
    t.add("shards_idx", &S::shards_idx, "Which of the parts.", {.min = 0, .example = "0"});
    t.add("weight", &S::weight, "How often the rows count: 0.5 takes half of them, 2 takes each twice.",
          {.min = 0, .max = 1000, .above = true, .example = "0.5"});
    t.add("max_rows", &S::max_rows, "At most so many rows.", {.min = 1, .example = "1000", .unset = "all rows"});
    t.add("skip", &S::skip, "Leading rows to leave out.", {.min = 0, .example = "100"});
    t.add("chat_template", &S::chat_template, "Template of this dataset.",
          {.example = "chatml", .unset = "the recipe's chat_template"});
    t.add("chat_template_jinja", &S::chat_template_jinja, "Jinja text or file of this dataset's template.",
          {.example = "template.jinja", .unset = "the recipe's"});
    t.add("field_messages", &S::field_messages, "Field of the list of messages.", {.example = "conversations"});
    t.add("message_property_mappings", &S::message_property_mappings,
          "The template's name of a message's property → the data's name.",
          {.example = "{role: from, content: value}"});
    t.add("field_tools", &S::field_tools, "Field of the tools.", {.example = "tools"});
    t.add("field_system", &S::field_system, "Field of a conversation's system text.", {.example = "system"});
    t.add("field_thinking", &S::field_thinking, "A message's field of its reasoning.",
          {.example = "reasoning", .unset = "none"});
    t.add("template_thinking_key", &S::template_thinking_key, "The template's name of the reasoning.",
          {.example = "reasoning_content"});
    t.add("roles", &S::roles, "The template's role → its names in the data; replaces the usual ones.",
          {.example = "{user: [human], assistant: [gpt]}", .unset = "human is user; gpt and model are assistant"});
    t.add("roles_to_train", &S::roles_to_train, "Roles whose turns are learned; an empty list learns none.",
          {.example = "[assistant]"});
    t.add("train_on_turns", &S::train_on_turns,
          "How many of the last learned turns are learned: all, last, or a number.",
          {.min = 0, .words = {"all", "last"}, .example = "last"});
    t.add("train_on_eos", &S::train_on_eos,
          "Which eos tokens are learned: those behind learned turns (turn), all, the last, none.", {.example = "turn"});
    t.add("train_on_eot", &S::train_on_eot, "The same for end-of-turn tokens.",
          {.example = "turn", .unset = "as train_on_eos"});
    t.add("message_field_training", &S::message_field_training, "A message's field that says whether it is learned.",
          {.example = "train", .unset = "none"});
    t.add("message_field_training_detail", &S::message_field_training_detail,
          "A message's field that says which characters are learned.", {.example = "train_detail", .unset = "none"});
    t.add("drop_system_message", &S::drop_system_message, "Leave the system message out.", {.example = "true"});
    t.add("split_thinking", &S::split_thinking, "Move <think>…</think> of an answer to template_thinking_key.",
          {.example = "true"});
    t.add("field", &S::field, "completion: the field of the text.", {.example = "body", .unset = "text"});
    t.add("text_column", &S::text_column, "pretraining: the field of the text.", {.example = "body", .unset = "text"});
    t.inert("dml reads local files as they are and runs no code from them",
            {"revision", "trust_remote_code", "preprocess_shards", "temperature", "logprobs_field"});
    t.refuse(
        "preference data is for reinforcement learning, which dml does not do; name a field with the answer to learn",
        {"field_chosen", "field_rejected", "field_prompt_tokens"});
    t.refuse("use type: chat_template with message_property_mappings and roles",
             {"conversation", "field_human", "field_model"});
    t.refuse("describe the format by a table under 'type'", {"input_format", "input_transform"});
    return t;
  }();
  return rows;
}

Section data_section() {
  using S = DataSection;
  Table t("Data", "What is learned from, and how rows are cut, mixed and packed.");
  t.defaults<S>();
  t.add("datasets", &S::datasets, "Sources of training rows; the keys of an entry are below.",
        {.example = "[{path: data/train.jsonl, type: alpaca}]",
         .unset = "required, unless pretraining_dataset is there",
         .data = true});
  t.add("test_datasets", &S::test_datasets, "Sources of rows for evaluation.",
        {.example = "[{path: data/test.jsonl, type: alpaca}]", .unset = "see val_set_size", .data = true});
  t.add("pretraining_dataset", &S::pretraining_dataset,
        "Sources of plain text, cut without loss into rows of sequence_len.",
        {.example = "[{path: data/corpus.txt}]", .unset = "see datasets", .data = true});
  t.add("val_set_size", &S::val_set_size, "Rows kept for evaluation: a share below 1, or a number of rows.",
        {.min = 0, .max = 1e12, .example = "0.05", .data = true});
  t.add("dataset_prepared_path", &S::dataset_prepared_path, "Directory of prepared data, one folder for each content.",
        {.example = "prepared", .path = true});
  t.add("sequence_len", &S::sequence_len, "Most tokens of an example; tokens of a packed row.",
        {.min = 2, .max = 1 << 24, .example = "2048", .data = true});
  t.add("eval_sequence_len", &S::eval_sequence_len, "The same for evaluation.",
        {.min = 2, .max = 1 << 24, .example = "2048", .unset = "sequence_len", .data = true});
  t.add("excess_length_strategy", &S::excess_length_strategy, "What happens to examples longer than sequence_len.",
        {.example = "truncate", .data = true});
  t.add("min_sample_len", &S::min_sample_len, "Examples with fewer tokens are dropped.",
        {.min = 1, .example = "2", .data = true});
  t.add("train_on_inputs", &S::train_on_inputs, "Learn the prompts, too.", {.example = "true", .data = true});
  t.add("sample_packing", &S::sample_packing,
        "Lay several examples into one row of sequence_len; they do not see each other.", {.example = "true"});
  t.add("eval_sample_packing", &S::eval_sample_packing, "The same for evaluation.",
        {.example = "true", .unset = "as sample_packing"});
  t.add("sample_packing_group_size", &S::sample_packing_group_size, "Examples that are packed together at a time.",
        {.min = 1, .example = "100000"});
  t.add("sample_packing_bin_size", &S::sample_packing_bin_size, "Most examples in one row.",
        {.min = 1, .example = "200"});
  t.add("sample_packing_sequentially", &S::sample_packing_sequentially, "Pack in the order of the data.",
        {.example = "true"});
  t.add("shuffle_merged_datasets", &S::shuffle_merged_datasets, "Shuffle all rows together once.",
        {.example = "false", .data = true});
  t.add("shuffle_before_merging_datasets", &S::shuffle_before_merging_datasets,
        "Shuffle each dataset before they are joined.", {.example = "true", .data = true});
  t.add("curriculum_sampling", &S::curriculum_sampling, "Train in the order of the data, without shuffling each epoch.",
        {.example = "true"});
  t.add("group_by_length", &S::group_by_length, "Put examples of like length into one micro-batch.",
        {.example = "true"});
  t.add("dataset_exact_deduplication", &S::dataset_exact_deduplication,
        "Drop examples that are equal to an earlier one.", {.example = "true", .data = true});
  t.add("dataset_near_deduplication", &S::dataset_near_deduplication,
        "Drop examples that are nearly equal to an earlier one.", {.example = "true", .data = true});
  t.add("dataset_shard_num", &S::dataset_shard_num, "Use one of so many equal parts of all rows.",
        {.min = 1, .example = "4", .unset = "all rows", .data = true});
  t.add("dataset_shard_idx", &S::dataset_shard_idx, "Which of the parts.", {.min = 0, .example = "0", .data = true});
  t.add("on_bad_row", &S::on_bad_row, "A row that cannot be read: stop, or leave it out and report it.",
        {.example = "skip", .data = true});
  return {std::move(t), [](Recipe& r) -> void* { return &r.data; }};
}

Section template_section() {
  using S = TemplateSection;
  Table t("Chat template", "How a conversation becomes text.");
  t.defaults<S>();
  t.add("chat_template", &S::chat_template,
        "A built-in template (`dml list`), tokenizer_default, tokenizer_default_fallback_NAME, or jinja.",
        {.example = "chatml", .unset = "the tokenizer's", .data = true});
  t.add("chat_template_jinja", &S::chat_template_jinja, "Jinja text, or a file with it.",
        {.example = "template.jinja", .unset = "none", .data = true});
  t.add("chat_template_kwargs", &S::chat_template_kwargs, "Variables for the template.",
        {.example = "{enable_thinking: false}", .data = true});
  t.add("eot_tokens", &S::eot_tokens, "Tokens that end a turn.",
        {.example = "[\"<|im_end|>\"]", .unset = "the eos token", .data = true});
  t.add("default_system_message", &S::default_system_message, "System text of conversations without one.",
        {.example = "You are helpful.", .unset = "the template's", .data = true});
  return {std::move(t), [](Recipe& r) -> void* { return &r.templates; }};
}

}  // namespace dml::recipe
