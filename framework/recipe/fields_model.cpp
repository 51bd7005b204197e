// Fields of the sections about the model and its adapter.
#include "recipe/codecs.h"

namespace dml::recipe {

template <>
const Table& table<SpecialTokens>() {
  using S = SpecialTokens;
  static const Table rows = [] {
    Table t("special_tokens", "Special tokens by their text.");
    t.defaults<S>();
    t.add("bos_token", &S::bos_token, "Beginning-of-text token (BOS).",
          {.example = "\"<s>\"", .unset = "the tokenizer's"});
    t.add("eos_token", &S::eos_token, "End-of-text token (EOS).", {.example = "\"</s>\"", .unset = "the tokenizer's"});
    t.add("pad_token", &S::pad_token, "Padding token, written to the output tokenizer for other tools; dml never pads.",
          {.example = "\"<pad>\"", .unset = "the tokenizer's"});
    t.add("unk_token", &S::unk_token, "Token for text that is not in the vocabulary.",
          {.example = "\"<unk>\"", .unset = "the tokenizer's"});
    t.add("additional_special_tokens", &S::additional_special_tokens,
          "More special tokens: each is one token and is never split.", {.example = "[\"<tool>\"]"});
    return t;
  }();
  return rows;
}

Section model_section() {
  using S = ModelSection;
  Table t("Model and tokenizer", "The model to train and its vocabulary.");
  t.defaults<S>();
  t.add(
      "base_model", &S::base_model,
      "Model directory in Hugging Face format: config.json, safetensors files and a tokenizer. Or a GGUF file of "
      "llama.cpp, quantized or not: frozen under an adapter, its matrices stay as they are. Or the name of a model of "
      "the Hub, downloaded when its cache lacks it: org/name, or org/name@revision.",
      {.example = "models/llama-3.2-1b", .unset = "required, unless model_config gives an architecture", .path = true});
  t.add("revision_of_model", &S::revision_of_model,
        "Branch, tag or commit, where base_model is the name of a model of the Hub.",
        {.aliases = {"model_revision"}, .example = "v1.1", .unset = "main"});
  t.add("base_model_config", &S::base_model_config, "Directory to read config.json from, instead of base_model.",
        {.example = "models/other", .unset = "base_model", .path = true});
  t.add("tokenizer_config", &S::tokenizer_config, "Directory to read the tokenizer from, instead of base_model.",
        {.example = "models/tokenizer", .unset = "base_model", .path = true});
  t.add("tokenizer_metaspace", &S::tokenizer_metaspace,
        "Read spaces as the LlamaTokenizer of transformers 5 does, which ignores the normalizer of tokenizer.json: no "
        "extra '▁' before a text that begins with a space. Only for tokenizer.json files of Llama models.",
        {.example = "true"});
  t.add("model_config", &S::model_config,
        "Entries that override the model's config.json. Without base_model, or with reinit_weights, they describe the "
        "whole architecture.",
        {.aliases = {"overrides_of_model_config"}, .example = "{rope_scaling: {rope_type: linear, factor: 2.0}}"});
  t.add("reinit_weights", &S::reinit_weights,
        "Train from scratch: initialize the weights at random instead of loading them.", {.example = "true"});
  t.add("frozen_storage", &S::frozen_storage,
        "How frozen base weights are stored in memory; auto maps the files as they are.", {.example = "bf16"});
  t.add("special_tokens", &S::special_tokens, "Special tokens that replace the tokenizer's own.",
        {.example = "{pad_token: \"<pad>\"}"});
  t.add("tokens", &S::tokens, "Ordinary tokens to add to the vocabulary.", {.example = "[\"<note>\"]"});
  t.add("resize_token_embeddings_to_32x", &S::resize_token_embeddings_to_32x,
        "When new tokens enlarge the embedding, round its rows up to a multiple of 32.", {.example = "true"});
  t.add("mean_resizing_embeddings", &S::mean_resizing_embeddings,
        "Initialize the rows of new tokens with the mean of the existing rows, not at random.", {.example = "true"});
  t.add("added_tokens_overrides", &S::added_tokens_overrides, "New text for reserved tokens, by token id.",
        {.example = "{128010: \"<think>\"}"});
  return {std::move(t), &Recipe::model};
}

namespace {

// Fields that select what is adapted.
void add_targets(Table& t) {
  using S = AdapterSection;
  t.add("lora_target_modules", &S::lora_target_modules,
        "Modules to adapt: a list of names (the whole path or its last parts), or one regular expression that matches "
        "the whole path. Syntax of Python's re.",
        {.example = "[q_proj, v_proj]", .unset = "see lora_target_linear"});
  t.add("lora_target_linear", &S::lora_target_linear,
        "Adapt every linear layer except the output head, in addition to lora_target_modules.", {.example = "true"});
  t.add("lora_target_parameters", &S::lora_target_parameters,
        "Parameters of a mixture of experts to adapt, all experts of a layer as one: whole names or their last parts. "
        "As in PEFT, an expert has lora_r ranks of its own, and lora_dropout must be 0.",
        {.example = "[mlp.experts.gate_up_proj, mlp.experts.down_proj]"});
  t.add("lora_modules_to_save", &S::lora_modules_to_save,
        "Modules to train in full and to save with the adapter. As in PEFT, naming the embedding or the head of a tied "
        "model separates the two matrices, unless peft_ensure_weight_tying is set.",
        {.example = "[embed_tokens, lm_head]"});
  t.add("peft_trainable_token_indices", &S::peft_trainable_token_indices,
        "Train only these rows (token ids) of the input embedding, or of the modules in a table. The head of a tied "
        "model shares the rows.",
        {.min = 0, .example = "[32000, 32001]"});
  t.add("peft_ensure_weight_tying", &S::peft_ensure_weight_tying,
        "For a tied model with lora_modules_to_save: train one copy that the embedding and the head share.",
        {.example = "true"});
}

// Fields of DoRA, rsLoRA, initial values, and ranks by module.
void add_variants(Table& t) {
  using S = AdapterSection;
  t.add("peft_use_dora", &S::peft_use_dora,
        "DoRA: train the magnitude of each weight row separately from its direction. lora_dropout applies to the input "
        "of A only; PEFT also applies it to the input of the base weight, where the magnitude changes its product.",
        {.example = "true"});
  t.add("peft_use_rslora", &S::peft_use_rslora, "Rank-stabilized LoRA: scale by lora_alpha / √lora_r.",
        {.example = "true"});
  t.add("peft_init_lora_weights", &S::peft_init_lora_weights,
        "Initial values of A and B: true (A Kaiming, B zero), gaussian (A normal, B zero), pissa or olora (the leading "
        "part of the weight, which is subtracted from the base), loftq (the quantization error of a 4-bit base), or "
        "false (both random).",
        {.example = "gaussian"});
  t.add("loftq_iter", &S::loftq_iter, "LoftQ: number of alternating steps that fit base and adapter to each other.",
        {.min = 1, .max = 100, .example = "5"});
  t.add("lora_rank_pattern", &S::lora_rank_pattern,
        "Rank for modules whose path, or its end, matches a regular expression: that of the first one that matches.",
        {.min = 1, .max = 16384, .example = "{\"layers.0.*q_proj\": 32}"});
  t.add("lora_alpha_pattern", &S::lora_alpha_pattern,
        "lora_alpha for modules whose path, or its end, matches a regular expression: that of the first one that "
        "matches.",
        {.min = 0, .above = true, .example = "{\"layers.0.*q_proj\": 64}"});
  t.add("peft_layers_to_transform", &S::peft_layers_to_transform, "Numbers of the decoder layers to adapt.",
        {.min = 0, .max = 100000, .example = "[0, 1, 2]", .unset = "all"});
  t.add("peft_layers_pattern", &S::peft_layers_pattern,
        "Name of the list of layers in module paths, for peft_layers_to_transform.",
        {.example = "layers", .unset = "the model's"});
}

// Fields about how the base is stored, and what of it is trained.
void add_base(Table& t) {
  using S = AdapterSection;
  t.add("load_in_4bit", &S::load_in_4bit,
        "Quantize the linear layers of the base to 4 bits: NF4 with double quantization, as bitsandbytes does. For a "
        "base in 16 bits, dequantized values are bf16.",
        {.example = "true", .unset = "true with adapter: qlora"});
  t.add("load_in_8bit", &S::load_in_8bit, "Quantize the linear layers of the base to 8 bits: int8, one scale per row.",
        {.example = "true"});
  t.add("quantized_cache_path", &S::quantized_cache_path,
        "Directory for quantized bases; each is made once, then mapped and shared by all processes.",
        {.aliases = {"quantised_cache_path"},
         .example = "quantized",
         .unset = "quantized/ in dataset_prepared_path",
         .path = true});
  t.add("unfrozen_parameters", &S::unfrozen_parameters,
        "Full fine-tuning: train only parameters whose name begins with a match of one of these regular expressions; "
        "'name[a:b]' trains rows a to b.",
        {.example = "[lm_head.weight, \"model.embed_tokens.weight[:32000]\"]", .unset = "all"});
}

}  // namespace

Section adapter_section() {
  using S = AdapterSection;
  Table t("Adapter", "Train a small adapter instead of all weights. Names and files follow PEFT.");
  t.defaults<S>();
  t.add("adapter", &S::adapter,
        "What to train: all weights (none), a LoRA adapter (lora), or a LoRA adapter on a 4-bit base (qlora).",
        {.example = "lora"});
  t.add("lora_r", &S::lora_r, "Rank of the adapter matrices.", {.min = 1, .max = 16384, .example = "16"});
  t.add("lora_alpha", &S::lora_alpha, "LoRA scaling: the update is multiplied by lora_alpha / lora_r.",
        {.min = 0, .above = true, .example = "32"});
  t.add("lora_dropout", &S::lora_dropout, "Dropout probability on the input of each adapter, in training.",
        {.min = 0, .max = 0.99, .example = "0.05"});
  add_targets(t);
  t.add("lora_model_dir", &S::lora_model_dir,
        "Directory of an adapter: training starts from it; merge and infer use it.",
        {.example = "outputs/lora", .unset = "a new adapter", .path = true});
  t.add("lora_fan_in_fan_out", &S::lora_fan_in_fan_out, "The base stores weights as (in, out), as GPT-2 does.",
        {.example = "true"});
  add_variants(t);
  t.add("loraplus_lr_ratio", &S::loraplus_lr_ratio, "LoRA+: learning rate of B divided by the learning rate of A.",
        {.min = 0, .above = true, .example = "16", .unset = "no LoRA+"});
  t.add("loraplus_lr_embedding", &S::loraplus_lr_embedding, "LoRA+: learning rate of adapters on the embedding.",
        {.min = 0, .above = true, .example = "1e-6"});
  add_base(t);
  t.add("relora", &S::relora,
        "ReLoRA: every jagged_restart_steps steps, merge the adapter into the base and restart it. The result is a "
        "full model. Merged weights keep the base's type (frozen_storage: f32 keeps full precision).",
        {.example = "true"});
  t.add("relora_prune_ratio", &S::relora_prune_ratio,
        "ReLoRA: fraction of the optimizer state to reset at each restart.", {.min = 0, .max = 1, .example = "0.99"});
  t.add("relora_prune_method", &S::relora_prune_method,
        "ReLoRA: which optimizer state to reset: the smallest entries of each tensor (magnitude), random entries, or "
        "all of it (reset).",
        {.example = "reset"});
  return {std::move(t), &Recipe::adapter};
}

}  // namespace dml::recipe
