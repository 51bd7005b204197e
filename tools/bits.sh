#!/bin/bash
# tools/bits.sh [DML] [> FILE]: 24 outputs of small runs (full and adapters, every strategy, packed, resumed, merged, converted,
# generated) as "SHA-256  NAME" lines. A change that must not change results gives the same lines before and after:
#   tools/bits.sh build/release/dml > after; diff before after
# Digests depend on the instruction set: AVX2, unless DML_ISA says otherwise. DML_KEEP=1 keeps the folder and prints its name.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
dml=$(realpath "${1:-$source/build/release/dml}")
work=$(mktemp -d)
if [ -z "${DML_KEEP:-}" ]; then trap 'rm -rf "$work"' EXIT; else echo "$work" >&2; fi
cd "$work"
export DML_ISA=${DML_ISA:-avx2} OMPI_MCA_rmaps_base_oversubscribe=1
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

head -n 60 "$source/datasets/quickstart/pirate.jsonl" > rows.jsonl
head -n 6 "$source/datasets/quickstart/heldout.jsonl" > asked.jsonl
cp -r "$source/datasets/quickstart/tokenizer" tokenizer
cat > model.yml <<'END'
tokenizer_config: tokenizer
model_config: {model_type: llama, vocab_size: 2048, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256, rms_norm_eps: 1.0e-5, rope_theta: 10000.0, tie_word_embeddings: true, initializer_range: 0.06, bos_token_id: 1, eos_token_id: 2}
END
cat > run.yml <<'END'
datasets: [{path: rows.jsonl, type: alpaca}]
dataset_prepared_path: prepared
val_set_size: 6
sequence_len: 128
micro_batch_size: 1
batch_size: 8
max_steps: 6
optimizer: adamw_torch
learning_rate: 5e-3
lr_scheduler: cosine
warmup_steps: 2
weight_decay: 0.1
max_grad_norm: 1.0
eval_steps: 3
save_steps: 3
seed: 7
threads: 1
END
cat run.yml model.yml > full.yml
{ cat run.yml; echo 'base_model: base
adapter: lora
lora_r: 4
lora_alpha: 8
lora_dropout: 0.1
lora_target_linear: true'; } > lora.yml

# Weights, configurations and metrics in a folder; other files are neither input nor result.
digest() {
  local folder=$1
  {
    (cd "$folder" && find . -maxdepth 1 \( -name '*.safetensors' -o -name 'adapter_config.json' -o -name 'config.json' \) | sort |
      while read -r file; do echo "$file"; cat "$file"; done)
    if [ -f "$folder/metrics.jsonl" ]; then grep -oE '"(step|loss|grad_norm|lr)":[^,}]*' "$folder/metrics.jsonl"; fi
  } | sha256sum | cut -d' ' -f1
}
tell() { printf '%s  %s\n' "$2" "$1"; }
quietly() { "$@" > log 2>&1 || { cat log >&2; echo "$*: failed" >&2; exit 1; }; }
# train NAME RANKS RECIPE [--KEY VALUE …]
train() {
  local name=$1 ranks=$2 recipe=$3
  shift 3
  local launcher=()
  if [ "$ranks" -gt 1 ]; then launcher=(mpirun -np "$ranks"); fi
  quietly "${launcher[@]}" "$dml" train "$recipe" --output_dir "$name" "$@"
  tell "$name" "$(digest "$name")"
}

train base 1 full.yml
train full-lion 1 full.yml --optimizer lion --learning_rate 1e-3 --embedding_lr 1e-4
train full-state-in-8-bits 1 full.yml --optimizer adamw_8bit --activation_storage bf16 --gradient_checkpointing true
train full-packed 1 full.yml --sample_packing true --neftune_noise_alpha 5 --batch_size 2
train lora 1 lora.yml
train dora 1 lora.yml --peft_use_dora true
train qlora 1 lora.yml --adapter qlora --load_in_4bit true
train int8 1 lora.yml --load_in_8bit true
train relora 1 lora.yml --relora true --jagged_restart_steps 2 --jagged_restart_warmup_steps 1 --relora_prune_ratio 0.8
train lora-packed-best 1 lora.yml --sample_packing true --batch_size 2 --load_best_model_at_end true --save_strategy best --save_steps ''
for strategy in ddp zero1 zero2 zero3; do
  for ranks in 2 4; do train "full-$strategy-$ranks" $ranks full.yml --distribution $strategy; done
done
train lora-hybrid-4 4 lora.yml --distribution hybrid --dp_shard_size 2
train lora-bf16-exchange-2 2 lora.yml --distribution zero2 --comm_dtype bf16
train lora-resumed 2 lora.yml --resume lora/checkpoint-3
quietly "$dml" merge lora.yml --output_dir lora --output merged
tell merged "$(digest merged)"
quietly "$dml" convert merged --dtype bf16 --untied --output converted
tell converted "$(digest converted)"
quietly "$dml" infer lora.yml --output_dir lora --input asked.jsonl --output texts.jsonl --greedy --max-new-tokens 24
tell greedy-texts "$(sha256sum < texts.jsonl | cut -d' ' -f1)"
