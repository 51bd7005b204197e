// Rows of the sections about the model and its adapter.
#include "recipe/codecs.h"

namespace dml::recipe {

template <>
const Table& table<SpecialTokens>() {
  using S = SpecialTokens;
  static const Table rows = [] {
    Table t("special_tokens", "The texts of the tokenizer's special tokens.");
    t.defaults<S>();
    t.add("bos_token", &S::bos_token, "Begins a text.", {.example = "\"<s>\"", .unset = "the tokenizer's"});
    t.add("eos_token", &S::eos_token, "Ends a text.", {.example = "\"</s>\"", .unset = "the tokenizer's"});
    t.add("pad_token", &S::pad_token, "Kept for other tools; dml never pads.",
          {.example = "\"<pad>\"", .unset = "the tokenizer's"});
    t.add("unk_token", &S::unk_token, "Stands for what the vocabulary lacks.",
          {.example = "\"<unk>\"", .unset = "the tokenizer's"});
    t.add("additional_special_tokens", &S::additional_special_tokens, "More texts that are one token and never split.",
          {.example = "[\"<tool>\"]"});
    return t;
  }();
  return rows;
}

Section model_section() {
  using S = ModelSection;
  Table t("Model and tokenizer", "Which model is trained, and with which vocabulary.");
  t.defaults<S>();
  t.add(
      "base_model", &S::base_model,
      "Directory with config.json, safetensors files and a tokenizer, as Hugging Face lays it out.",
      {.example = "models/llama-3.2-1b", .unset = "required, unless model_config gives an architecture", .path = true});
  t.add("base_model_config", &S::base_model_config, "Directory to take config.json from instead.",
        {.example = "models/other", .unset = "base_model", .path = true});
  t.add("tokenizer_config", &S::tokenizer_config, "Directory to take the tokenizer from instead.",
        {.example = "models/tokenizer", .unset = "base_model", .path = true, .data = true});
  t.add(
      "model_config", &S::model_config,
      "Entries laid over the model's config.json; without base_model, or with reinit_weights, the whole architecture.",
      {.aliases = {"overrides_of_model_config"}, .example = "{rope_scaling: {rope_type: linear, factor: 2.0}}"});
  t.add("reinit_weights", &S::reinit_weights, "Train from scratch: random weights instead of the model's.",
        {.example = "true"});
  t.add("frozen_storage", &S::frozen_storage,
        "How base weights that are not trained are kept in memory; auto maps the files as they are.",
        {.example = "bf16"});
  t.add("special_tokens", &S::special_tokens, "Special tokens that differ from the tokenizer's own.",
        {.example = "{pad_token: \"<pad>\"}", .data = true});
  t.add("tokens", &S::tokens, "Ordinary tokens to add to the vocabulary.", {.example = "[\"<note>\"]", .data = true});
  t.add("resize_token_embeddings_to_32x", &S::resize_token_embeddings_to_32x,
        "When new tokens make the embedding grow, up to a multiple of 32 rows.", {.example = "true"});
  t.add("mean_resizing_embeddings", &S::mean_resizing_embeddings,
        "Rows for new tokens begin as the mean of the others instead of at random.", {.example = "true"});
  t.add("added_tokens_overrides", &S::added_tokens_overrides, "New spellings of reserved tokens, by id.",
        {.example = "{128010: \"<think>\"}", .data = true});
  return {std::move(t), [](Recipe& r) -> void* { return &r.model; }};
}

Section adapter_section() {
  using S = AdapterSection;
  Table t("Adapter", "Train a small adapter instead of the whole model. Names and files are PEFT's.");
  t.defaults<S>();
  t.add("adapter", &S::adapter, "What is trained: everything (none), a LoRA adapter, or one on a 4-bit base (qlora).",
        {.example = "lora"});
  t.add("lora_r", &S::lora_r, "Rank of the adapter's matrices.", {.min = 1, .max = 16384, .example = "16"});
  t.add("lora_alpha", &S::lora_alpha, "Scale: the adapter's product counts lora_alpha / lora_r.",
        {.min = 0, .above = true, .example = "32"});
  t.add("lora_dropout", &S::lora_dropout, "Share of the adapter's inputs that is left out in training.",
        {.min = 0, .max = 0.99, .example = "0.05"});
  t.add(
      "lora_target_modules", &S::lora_target_modules,
      "Layers that get an adapter: names (whole or the end of the path), or one regular expression for the whole path.",
      {.example = "[q_proj, v_proj]", .unset = "see lora_target_linear"});
  t.add("lora_target_linear", &S::lora_target_linear, "Every linear layer gets an adapter, but the output head.",
        {.example = "true"});
  t.add("lora_modules_to_save", &S::lora_modules_to_save, "Layers trained in full and saved with the adapter.",
        {.example = "[embed_tokens, lm_head]"});
  t.add("lora_model_dir", &S::lora_model_dir, "Directory of an adapter to start from, to merge, or to infer with.",
        {.example = "outputs/lora", .unset = "a fresh adapter", .path = true});
  t.add("lora_fan_in_fan_out", &S::lora_fan_in_fan_out, "The base stores weights as (in, out), as GPT-2 does.",
        {.example = "true"});
  t.add("peft_use_dora", &S::peft_use_dora, "DoRA: train the length of each weight row apart from its direction.",
        {.example = "true"});
  t.add("peft_use_rslora", &S::peft_use_rslora, "Scale by lora_alpha / √lora_r.", {.example = "true"});
  t.add("peft_init_lora_weights", &S::peft_init_lora_weights,
        "How A and B begin: true (Kaiming, B zero), gaussian, pissa or olora (the leading part of the weight itself, "
        "which the base then lacks), loftq (what a 4-bit base lacks of the weight), or false (both random).",
        {.example = "gaussian"});
  t.add("loftq_iter", &S::loftq_iter, "LoftQ: how often base and adapter are fitted to each other.",
        {.min = 1, .max = 100, .example = "5"});
  t.add("lora_rank_pattern", &S::lora_rank_pattern, "Another rank for layers whose path matches.",
        {.min = 1, .max = 16384, .example = "{\"layers.0.*q_proj\": 32}"});
  t.add("lora_alpha_pattern", &S::lora_alpha_pattern, "Another lora_alpha for layers whose path matches.",
        {.min = 0, .above = true, .example = "{\"layers.0.*q_proj\": 64}"});
  t.add("peft_layers_to_transform", &S::peft_layers_to_transform, "Decoder layers that get an adapter.",
        {.min = 0, .max = 100000, .example = "[0, 1, 2]", .unset = "all"});
  t.add("peft_layers_pattern", &S::peft_layers_pattern, "Name of the list of layers, for peft_layers_to_transform.",
        {.example = "layers", .unset = "the model's"});
  t.add("loraplus_lr_ratio", &S::loraplus_lr_ratio, "LoRA+: the learning rate of B divided by that of A.",
        {.min = 0, .above = true, .example = "16", .unset = "no LoRA+"});
  t.add("loraplus_lr_embedding", &S::loraplus_lr_embedding, "LoRA+: learning rate of adapters on the embedding.",
        {.min = 0, .above = true, .example = "1e-6"});
  t.add("load_in_4bit", &S::load_in_4bit,
        "Keep the base's linear layers in 4 bits: nf4 with double quantisation, as bitsandbytes has it. Of a base in "
        "16 bits the "
        "values are bf16.",
        {.example = "true", .unset = "true with adapter: qlora"});
  t.add("load_in_8bit", &S::load_in_8bit, "Keep the base's linear layers in 8 bits: int8, one scale per row.",
        {.example = "true"});
  t.add(
      "quantised_cache_path", &S::quantised_cache_path,
      "Directory of quantised bases, one folder for each content; made once, then mapped and shared by all processes.",
      {.example = "quantised", .unset = "the folder quantised in dataset_prepared_path", .path = true});
  t.add("unfrozen_parameters", &S::unfrozen_parameters,
        "Without an adapter: train only parameters whose name matches; 'name[a:b]' trains rows a to b.",
        {.example = "[lm_head.weight, \"model.embed_tokens.weight[:32000]\"]", .unset = "all"});
  t.add("relora", &S::relora,
        "ReLoRA: every jagged_restart_steps steps the adapter is merged into the base and begins anew; the result is a "
        "whole model. Merged weights are kept in the base's type (frozen_storage: f32 keeps every digit).",
        {.example = "true"});
  t.add("relora_prune_ratio", &S::relora_prune_ratio,
        "ReLoRA: share of the optimizer's memory that a restart cuts away.", {.min = 0, .max = 1, .example = "0.99"});
  t.add("relora_prune_method", &S::relora_prune_method,
        "ReLoRA: what is cut away: the smallest entries of each tensor (magnitude), random ones, or all (reset).",
        {.choices = {{"magnitude", "magnitude"}, {"random", "random"}, {"reset", "reset"}}, .example = "reset"});
  return {std::move(t), [](Recipe& r) -> void* { return &r.adapter; }};
}

}  // namespace dml::recipe
