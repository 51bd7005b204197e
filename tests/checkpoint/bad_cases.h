// Invalid config.json, adapter_config.json and sharded indexes: a valid file, and changes to it that must be rejected.
// Used by the readers' tests in tests/checkpoint and with the built program in tests/e2e.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <ostream>
#include <string>

namespace dml::bad {

/// `change`: a merge patch (RFC 7396: null removes a key) of the valid file; `message`: part of the error.
struct Case {
  const char *name, *family, *change, *message;
};
inline void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

inline constexpr const char* kGoodModelConfig =
    R"({"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 2})";

inline constexpr Case kModelConfigs[] = {
    {"HiddenZero", "llama", R"({"hidden_size": 0})", "hidden size must be 1 to"},
    {"HiddenNegative", "llama", R"({"hidden_size": -1})", "hidden size must be 1 to"},
    {"HiddenFraction", "llama", R"({"hidden_size": 1.5})", "'hidden_size' must be a whole number"},
    {"HiddenText", "llama", R"({"hidden_size": "64"})", "'hidden_size' must be a whole number"},
    {"HiddenHuge", "llama", R"({"hidden_size": 4611686018427387904})", "hidden size must be 1 to"},
    {"HiddenMissing", "llama", R"({"hidden_size": null})", "no 'hidden_size'"},
    {"HeadsZero", "llama", R"({"num_attention_heads": 0})", "attention heads must be 1 to"},
    {"HeadsDoNotDivide", "llama", R"({"num_attention_heads": 5})", "not divisible by 5"},
    {"MoreKvHeadsThanHeads", "llama", R"({"num_key_value_heads": 8})", "cannot be shared out"},
    {"KvHeadsDoNotDivide", "llama", R"({"num_key_value_heads": 3})", "cannot be shared out"},
    {"KvHeadsZero", "llama", R"({"num_key_value_heads": 0})", "key/value heads must be 1 to"},
    {"HeadDimOdd", "llama", R"({"head_dim": 7})", "not an even number"},
    {"HeadDimZero", "llama", R"({"head_dim": 0})", "head_dim must be 1 to"},
    {"HeadDimHuge", "llama", R"({"head_dim": 1000000})", "head_dim must be 1 to"},
    {"LayersZero", "llama", R"({"num_hidden_layers": 0})", "number of layers must be 1 to"},
    {"LayersBillion", "llama", R"({"num_hidden_layers": 1000000000})", "'num_hidden_layers' must be 1 to"},
    {"LayersBillionGpt2", "gpt2", R"({"n_embd": 32, "n_head": 4, "n_layer": 1000000000})",
     "number of layers must be 1 to"},
    {"IntermediateZero", "llama", R"({"intermediate_size": 0})", "intermediate size must be 1 to"},
    {"VocabZero", "llama", R"({"vocab_size": 0})", "vocabulary size must be 1 to"},
    {"EpsZero", "llama", R"({"rms_norm_eps": 0})", "epsilon must be above 0"},
    {"EpsNegative", "llama", R"({"rms_norm_eps": -1e-6})", "epsilon must be above 0"},
    {"EpsText", "llama", R"({"rms_norm_eps": "NaN"})", "'rms_norm_eps' must be a number"},
    {"EpsOne", "llama", R"({"rms_norm_eps": 1})", "epsilon must be above 0"},
    {"ThetaZero", "llama", R"({"rope_theta": 0})", "rope theta must be above 1"},
    {"ThetaNegative", "llama", R"({"rope_theta": -10000})", "rope theta must be above 1"},
    {"RopeUnknown", "llama", R"({"rope_scaling": {"rope_type": "yarm", "factor": 2}})",
     "unknown rope type 'yarm'; did you mean 'yarn'?"},
    {"RopeUnknownKey", "llama", R"({"rope_scaling": {"rope_type": "linear", "factor": 2, "mrope_section": [1]}})",
     "'mrope_section'"},
    {"RopeNoFactor", "llama", R"({"rope_scaling": {"rope_type": "linear"}})", "needs 'factor'"},
    {"RopeFactorZero", "llama", R"({"rope_scaling": {"rope_type": "linear", "factor": 0}})",
     "factor must be at least 1"},
    {"RopeFactorNegative", "llama", R"({"rope_scaling": {"rope_type": "dynamic", "factor": -1}})",
     "factor must be at least 1"},
    {"RopeList", "llama", R"({"rope_scaling": [1]})", "'rope_scaling' must be an object"},
    {"YarnBetas", "llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 32}})",
     "beta_slow < beta_fast"},
    {"Llama3Frequencies", "llama",
     R"({"rope_scaling": {"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8}})",
     "low_freq_factor < high_freq_factor"},
    {"RopeOfPhi3", "phi3", R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})", "a phi3 knows"},
    {"RopeNestedForOneKind", "llama", R"({"rope_parameters": {"full_attention": {"rope_theta": 5e5}}})",
     "'full_attention' changes the rotary embedding"},
    {"RopeFlatForTwoKinds", "gemma3_text", R"({"head_dim": 8, "rope_parameters": {"rope_theta": 5e5}})",
     "must hold 'full_attention' and 'sliding_attention'"},
    {"DynamicRopeOfOnePair", "llama", R"({"head_dim": 2, "rope_scaling": {"rope_type": "dynamic", "factor": 2}})",
     "has no formula"},
    {"PartialOfLlama", "llama", R"({"partial_rotary_factor": 0.5})", "'partial_rotary_factor' is 0.5"},
    {"PartialOfQwenInside", "qwen2", R"({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}})",
     "'partial_rotary_factor' is 0.5"},
    {"LayerTypesOfStarcoder2", "starcoder2",
     R"({"sliding_window": 7, "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]})",
     "every layer of a starcoder2 has the window"},
    {"HeadDimOfStablelm", "stablelm", R"({"head_dim": 16})", "heads of a stablelm are hidden_size"},
    {"HeadDimThatWrapsToHidden", "stablelm", R"({"head_dim": 4611686018427387912})",
     "heads of a stablelm are hidden_size"},
    {"LongropeLength", "phi3",
     R"({"rope_scaling": {"type": "longrope", "long_factor": [1], "short_factor": [1, 1, 1, 1]}})",
     "long_factor must have 4 numbers, has 1"},
    {"LongropeText", "phi3", R"({"rope_scaling": {"type": "longrope", "long_factor": "x", "short_factor": [1]}})",
     "'long_factor' must be a list of numbers"},
    {"PartialZero", "stablelm", R"({"partial_rotary_factor": 0})", "in (0, 1]"},
    {"WindowZero", "mistral", R"({"sliding_window": 0})", "'sliding_window' must be null or above 0"},
    {"WindowNegative", "mistral", R"({"sliding_window": -1})", "'sliding_window' must be null or above 0"},
    {"LayerTypesLength", "gemma2", R"({"head_dim": 8, "layer_types": ["full_attention"]})",
     "must list 4 layers, lists 1"},
    {"LayerTypesWord", "gemma2", R"({"head_dim": 8, "layer_types": ["full_attention", "x", "x", "x"]})", "choose from"},
    {"EosOutside", "llama", R"({"eos_token_id": 100})", "eos id 100 is outside"},
    {"EosListBad", "llama", R"({"eos_token_id": [2, -5]})", "must be a token id"},
    {"EosText", "llama", R"({"eos_token_id": "</s>"})", "must be a token id"},
    {"PositionsZero", "llama", R"({"max_position_embeddings": 0})", "number of positions must be 1 to"},
    {"PositionsHuge", "llama", R"({"max_position_embeddings": 1099511627776})", "number of positions must be 1 to"},
    {"UnknownFamily", "lama", "{}", "model_type 'lama' is not supported; did you mean 'llama'?"},
    {"FamilyOfExperts", "phimoe", "{}", "model_type 'phimoe' is not supported: its mixture of experts"},
    {"MoreExpertsThanThere", "mixtral", R"({"num_local_experts": 4, "num_experts_per_tok": 5})",
     "num_experts_per_tok must be 1 to the number of experts, 4, is 5"},
    {"NoExperts", "mixtral", R"({"num_local_experts": 0})", "'num_local_experts' must be above 0"},
    {"TwoNumbersOfExperts", "qwen3_moe", R"({"num_experts": 8, "num_local_experts": 4, "num_experts_per_tok": 2})",
     "'num_experts' is 8, but 'num_local_experts', which is the same, is 4"},
    {"ExpertsAsText", "olmoe", R"({"num_experts": "four"})", "'num_experts' must be a whole number"},
    {"NoExpertForAToken", "qwen2_moe", R"({"num_experts": 4, "num_experts_per_tok": 0})",
     "num_experts_per_tok must be 1 to the number of experts, 4, is 0"},
    {"GroupsOfExperts", "deepseek_v3", R"({"n_routed_experts": 10, "n_group": 4, "topk_group": 1})",
     "n_group must divide the 10 experts, is 4"},
    {"GroupsTooFew", "deepseek_v3",
     R"({"n_routed_experts": 8, "n_group": 4, "topk_group": 1, "num_experts_per_tok": 3})",
     "topk_group 1 of n_group 4 leaves 2 experts to choose from"},
    {"GroupsChosen", "deepseek_v3", R"({"n_routed_experts": 8, "n_group": 2, "topk_group": 3})",
     "topk_group must be 1 to n_group, 2, is 3"},
    {"GroupsChosenHuge", "deepseek_v3", R"({"n_routed_experts": 8, "n_group": 2, "topk_group": 9223372036854775807})",
     "topk_group must be 1 to n_group, 2, is 9223372036854775807"},
    {"ExpertsHuge", "deepseek_v3", R"({"moe_intermediate_size": 9223372036854775807, "n_shared_experts": 2})",
     "the width of an expert must be 1 to 1048576, is 9223372036854775807"},
    {"DenseLayersText", "qwen3_moe", R"({"mlp_only_layers": ["1"]})",
     "'mlp_only_layers' must be a list of whole numbers"},
    {"SparseStepZero", "qwen3_moe", R"({"decoder_sparse_step": 0})", "'decoder_sparse_step' must be above 0"},
    {"Jitter", "mixtral", R"({"router_jitter_noise": 1.5})", "router_jitter_noise must be at least 0 and below 1"},
    {"ScoringFunction", "deepseek_v3", R"({"scoring_func": "softmax"})", "a deepseek_v3 scores by sigmoid"},
    {"NormsOfHunyuan", "hunyuan_v1_dense", R"({"use_qk_norm": false})", "a hunyuan_v1_dense has norms on q and k"},
    {"LayersBelowZero", "qwen3_moe", R"({"num_hidden_layers": -1})", "number of layers must be 1 to"},
    {"GateSlope", "gpt_oss", R"({"swiglu_alpha": 1.5})", "'swiglu_alpha' is 1.5, only 1.702 is supported"},
    {"GateLimit", "gpt_oss", R"({"swiglu_limit": 5})", "'swiglu_limit' is 5, only 7 is supported"},
    {"PartsWithoutText", "gemma3", "{}", "no 'text_config', which a gemma3 has"},
    {"NoFamily", "", "{}", "no 'model_type'"},
    {"OtherArchitecture", "llama", R"({"architectures": ["MistralForCausalLM"]})", "expected [\"LlamaForCausalLM\"]"},
    {"Quantized", "llama", R"({"quantization_config": {"quant_method": "aqlm"}})", "'quantization_config'"},
    {"QuantizedTo3Bits", "llama", R"({"quantization_config": {"quant_method": "gptq", "bits": 3}})", "GPTQ to 3 bits"},
    {"Experts", "llama", R"({"num_local_experts": 8})", "a model of this type has no experts"},
    {"LogitScale", "llama", R"({"logit_scale": 0.0625})", "'logit_scale' is 0.0625"},
    {"HeadNorms", "llama", R"({"qk_layernorm": true})", "'qk_layernorm' is true"},
    {"ScoresOfGpt2", "llama", R"({"scale_attn_weights": false})", "'scale_attn_weights' is false"},
    {"UnknownActivation", "llama", R"({"hidden_act": "mish"})", "'hidden_act' is 'mish'"},
    {"QueryScalarZero", "gemma2", R"({"head_dim": 8, "query_pre_attn_scalar": 0})", "must be above 0"},
    {"TiedText", "llama", R"({"tie_word_embeddings": "yes"})", "true or false"}};

inline constexpr const char* kGoodAdapterConfig =
    R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})";

inline constexpr Case kAdapterConfigs[] = {
    {"NoPeftType", "", R"({"peft_type": null})", "no 'peft_type'"},
    {"OtherMethod", "", R"({"peft_type": "IA3"})", "only LORA is"},
    {"OtherTask", "", R"({"task_type": "QUESTION_ANS"})", "only CAUSAL_LM, SEQ_CLS and TOKEN_CLS are"},
    {"RankZero", "", R"({"r": 0})", "'r' must be 1 to"},
    {"RankNegative", "", R"({"r": -1})", "'r' must be 1 to"},
    {"RankHuge", "", R"({"r": 2147483648})", "'r' must be 1 to"},
    {"RankText", "", R"({"r": "8"})", "whole number"},
    {"AlphaZero", "", R"({"lora_alpha": 0})", "other than 0"},
    {"AlphaNan", "", R"({"lora_alpha": "NaN"})", "must be a number"},
    {"DropoutOne", "", R"({"lora_dropout": 1.0})", "below 1"},
    {"TargetsMatchNothing", "", R"({"target_modules": ["Wqkv"]})", "match no module"},
    {"TargetsNumber", "", R"({"target_modules": 3})", "list of module names"},
    {"TargetPatternBroken", "", R"({"target_modules": "(q_proj"})", "missing closing parenthesis"},
    {"RankPatternBroken", "", R"({"rank_pattern": {"q_[": 2}})", "'rank_pattern'"},
    {"RankPatternZero", "", R"({"rank_pattern": {"q_proj": 0}})", "must be 1 to"},
    {"AlphaPatternText", "", R"({"alpha_pattern": {"q_proj": "a"}})", "must be a number"},
    {"LayersNegative", "", R"({"layers_to_transform": [-1]})", "layer numbers"},
    {"SavedModuleAbsent", "", R"({"modules_to_save": ["score"]})", "modules_to_save names 'score'"},
    {"BiasWord", "", R"({"bias": "some"})", "choose from none, all, lora_only"},
    {"LoraBiasWithDora", "", R"({"lora_bias": true, "use_dora": true})", "no 'lora_bias' with 'use_dora'"},
    {"LoraBiasOnTheHead", "", R"({"lora_bias": true, "target_modules": ["lm_head"]})", "lora_bias on 'lm_head'"},
    {"LayersWithAPattern", "", R"({"target_modules": ".*q_proj", "layers_to_transform": [0]})", "as a list of names"},
    {"LayersWithAllLinear", "", R"({"target_modules": "all-linear", "layers_to_transform": [0]})",
     "as a list of names"},
    {"Qalora", "", R"({"use_qalora": true})", "'use_qalora' is true"},
    {"TokenIndicesText", "", R"({"trainable_token_indices": "all"})", "'trainable_token_indices' must be token ids"},
    {"TokenIndexNegative", "", R"({"trainable_token_indices": [1, -1]})", "-1 is not a token id"},
    {"TokenIndexBeyond", "", R"({"trainable_token_indices": [100000]})", "not in the vocabulary"},
    {"TokenModule", "", R"({"trainable_token_indices": {"wte": [1]}})", "names 'wte'"},
    {"LoftqBits", "", R"({"init_lora_weights": "loftq", "loftq_config": {"loftq_bits": 2}})", "only 4 is supported"},
    {"LoftqIterations", "", R"({"init_lora_weights": "loftq", "loftq_config": {"loftq_iter": 0}})",
     "'loftq_iter' must be"},
    {"LoftqConfigText", "", R"({"init_lora_weights": "loftq", "loftq_config": "4bit"})", "must be an object"},
    {"InitNumber", "", R"({"init_lora_weights": 3})", "'init_lora_weights'"}};

/// The tensor whose shard is changed.
inline constexpr const char* kIndexed = "model.norm.weight";
inline constexpr Case kIndexes[] = {
    {"LeadsUpwards", "", R"({"weight_map": {"model.norm.weight": "../../etc/passwd"}})", "outside the model's folder"},
    {"IsAbsolute", "", R"({"weight_map": {"model.norm.weight": "/etc/passwd"}})", "not the name of a file"},
    {"LinksOut", "", R"({"weight_map": {"model.norm.weight": "link.safetensors"}})", "outside the model's folder"},
    {"LinksToADevice", "", R"({"weight_map": {"model.norm.weight": "zero"}})", "outside the model's folder"},
    {"HasNulInAName", "", R"({"weight_map": {"model.norm.weight": "model\u0000x"}})", "not the name of a file"},
    {"HasAnEmptyName", "", R"({"weight_map": {"model.norm.weight": ""}})", "not the name of a file"},
    {"NamesAMissingShard", "", R"({"weight_map": {"model.norm.weight": "model-9.safetensors"}})",
     "'model-9.safetensors' is missing"},
    {"NamesATensorThatTheShardLacks", "", R"({"weight_map": {"d": "model-00001-of-00002.safetensors"}})",
     "tensor 'd' should be in"},
    {"NamesNoText", "", R"({"weight_map": {"model.norm.weight": 3}})", "not the name of a file"},
    {"HasNoMap", "", R"({"weight_map": null})", "no 'weight_map' object"},
    {"HasAListAsMap", "", R"({"weight_map": []})", "no 'weight_map' object"},
    {"IsNoObject", "", "[]", "no 'weight_map' object"},
    {"NamesAPipe", "", R"({"weight_map": {"model.norm.weight": "pipe"}})", "pipe or device"},
    {"NamesASocket", "", R"({"weight_map": {"model.norm.weight": "socket"}})", "cannot be opened"},
    {"NamesAFolder", "", R"({"weight_map": {"model.norm.weight": "folder"}})", "a folder"},
    {"NamesAnEmptyFile", "", R"({"weight_map": {"model.norm.weight": "empty"}})", "empty"},
};

/// What a shard's name may refer to instead of a file of weights.
inline void put_odd_things(const std::string& directory) {
  namespace fs = std::filesystem;
  fs::create_symlink("/etc/passwd", directory + "/link.safetensors");
  fs::create_symlink("/dev/zero", directory + "/zero");
  fs::create_directory(directory + "/folder");
  mkfifo((directory + "/pipe").c_str(), 0600);
  mknod((directory + "/socket").c_str(), S_IFSOCK | 0600, 0);
  mknod((directory + "/empty").c_str(), S_IFREG | 0600, 0);
}

}  // namespace dml::bad
