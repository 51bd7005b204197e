#!/bin/bash
# Trains, resumes and generates with small models of every family, with a program built with sanitizers: it ends at the first
# fault they find.
#   tools/sanitize.sh [PROGRAM]             each family with full training and one kind of adapter
#   DML_LONG=1 tools/sanitize.sh [PROGRAM]  each family with every kind of adapter
# Without PROGRAM it builds dml_sanitized (AddressSanitizer and UndefinedBehaviorSanitizer). For ThreadSanitizer:
#   cmake --preset release -DDML_SANITIZERS=thread
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
  dml=$(realpath "$1")
else
  cmake --preset release >/dev/null
  cmake --build --preset release --target dml_sanitized
  dml=$PWD/build/release/dml_sanitized
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A process does not free MPI and its global tables at exit.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"
head -n 14 datasets/quickstart/pirate.jsonl >"$work/rows.jsonl"

families=(llama_tiny llama_bias mistral qwen2 qwen3 gemma gemma2 gemma3 phi3 stablelm stablelm_heads stablelm_parallel olmo2 gpt2
  gpt2_scaled)
kinds=(lora dora qlora int8 qdora relora modules rslora)
declare -A keys=(
  [full]="optimizer: adamw_torch"
  [lora]=$'adapter: lora\nlora_dropout: 0.1\noptimizer: lion\nsample_packing: true'
  [dora]=$'adapter: lora\npeft_use_dora: true\noptimizer: adamw_8bit\ngradient_checkpointing: true'
  [qlora]=$'adapter: qlora\nload_in_4bit: true\noptimizer: adamw_8bit'
  [int8]=$'adapter: lora\nload_in_8bit: true\noptimizer: lion_8bit\ngradient_checkpointing: mlp'
  [qdora]=$'adapter: qlora\nload_in_4bit: true\npeft_use_dora: true\nlora_dropout: 0.1\noptimizer: sgd'
  [relora]=$'adapter: lora\nrelora: true\njagged_restart_steps: 2\njagged_restart_warmup_steps: 0\noptimizer: adamw_torch\nfrozen_storage: bf16'
  [modules]=$'adapter: lora\nlora_modules_to_save: [embed_tokens]\nneftune_noise_alpha: 5\noptimizer: adamw_torch'
  [rslora]=$'adapter: lora\npeft_use_rslora: true\nactivation_storage: bf16\noptimizer: adamw_torch'
)

# FAMILY KIND ISA: trains, goes on from the middle, says something.
try() {
  local family=$1 kind=$2 folder=$work/$1-$2
  mkdir -p "$folder"
  {
    if [ "$kind" = full ]; then
      echo "tokenizer_config: datasets/quickstart/tokenizer"
      echo "model_config: $(tr -d '\n' <"tests/golden/$family/model/config.json" |
        sed -E 's/"vocab_size": *[0-9]+/"vocab_size": 2048/; s/"(max_position_embeddings|n_positions)": *[0-9]+/"\1": 256/')"
    else
      echo "base_model: $work/$family-full/out"
      echo "lora_r: 4"
      echo "lora_alpha: 8"
      echo "lora_target_linear: true"
    fi
    if [[ $family = gpt2* ]]; then echo "${keys[$kind]/embed_tokens/wte}"; else echo "${keys[$kind]}"; fi
    cat <<YAML
datasets: [{path: $work/rows.jsonl, type: alpaca}]
dataset_prepared_path: $work/prepared
val_set_size: 2
sequence_len: 128
micro_batch_size: 2
batch_size: 4
max_steps: 4
eval_steps: 2
save_steps: 2
learning_rate: 1e-3
threads: 2
output_dir: $folder/out
YAML
  } >"$folder/recipe.yml"
  export DML_ISA=$3
  {
    "$dml" train "$folder/recipe.yml" &&
      rm -rf "$folder/out/checkpoint-4" &&
      "$dml" train "$folder/recipe.yml" --resume "$folder/out/checkpoint-2" &&
      "$dml" infer "$folder/recipe.yml" --prompt "Where does a lion sleep?" --max-new-tokens 6
  } >"$folder/log" 2>&1 || {
    echo "failed: $family, $kind, DML_ISA=$DML_ISA"
    tail -n 40 "$folder/log"
    return 1
  }
  echo "ok: $family, $kind, ${DML_ISA:-best loops}"
}

failed=0 turn=0
isas=("" portable avx2 "")
grep -q ' avx2 ' /proc/cpuinfo || isas=("" "" "" "")
for family in "${families[@]}"; do
  try "$family" full "${isas[turn % 4]}" || { failed=1; continue; }
  for kind in "${kinds[@]}"; do
    if [ -n "${DML_LONG:-}" ] || [ "$kind" = "${kinds[turn % ${#kinds[@]}]}" ]; then
      try "$family" "$kind" "${isas[(turn + 1) % 4]}" || failed=1
    fi
  done
  turn=$((turn + 1))
done
exit $failed
