#!/bin/bash
# The effect of bf16 products on quality: the same runs with `bf16: false` and `bf16: true`, same seeds and rows, and the validation
# loss at their end. The quickstart's pretraining, then LoRA on the model that it made; with ../shared also LoRA on a model
# trained elsewhere (stories260K). Goal: within 0.5 %.
#   bench/precision.sh [--steps 300]
set -euo pipefail
cd "$(dirname "$0")/.."
dml=$(realpath "${DML:-build/release/dml}")
[ -x "$dml" ] || { echo "$dml is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
steps=300
if [ "${1:-}" = --steps ]; then steps=$2; fi
out=$(mktemp -d "${TMPDIR:-/tmp}/dml-precision.XXXXXX")
trap 'rm -rf "$out"' EXIT

tokenizer=$out/tokenizer
"$dml" tokenizer train datasets/quickstart/plain_text.jsonl datasets/quickstart/plain_questions.jsonl --output "$tokenizer" \
  --vocab-size 2048 --character-coverage 1 --quiet >&2

# last_loss FOLDER: the run's last validation loss
last_loss() { grep '"event":"eval"' "$1/metrics.jsonl" | tail -n 1 | grep -o '"loss":[0-9.e+-]*' | cut -d: -f2; }

# both NAME OPTION…: trains in both precisions and prints a line
both() {
  local name=$1 precision
  shift
  for precision in false true; do
    "$dml" train "$@" --bf16 $precision --max_steps "$steps" --dataset_prepared_path "$out/data" --output_dir "$out/$name-$precision" --quiet
  done
  awk -v name="$name" -v a="$(last_loss "$out/$name-false")" -v b="$(last_loss "$out/$name-true")" 'BEGIN {
    d = 100 * (b / a - 1); printf "%-22s %9.5f %9.5f  %+7.3f %%  ≤ 0.5 %s\n", name, a, b, d, d <= 0.5 ? "pass" : "FAIL"; exit d > 0.5 }'
}

printf '%-22s %9s %9s\n' "$steps steps" float32 bf16
both pretraining recipes/quickstart/pretrain.yml --tokenizer_config "$tokenizer"
both lora recipes/quickstart/pirate-lora.yml --base_model "$out/pretraining-false" --num_epochs 20
stories=../shared/data/models/stories260K
if [ -d "$stories" ]; then
  cat > "$out/stories.yml" <<RECIPE
base_model: $(realpath "$stories")
datasets: [{path: $(realpath datasets/quickstart/plain_text.jsonl), type: completion}]
val_set_size: 0.05
dataset_exact_deduplication: true
adapter: lora
lora_r: 8
lora_alpha: 16
lora_target_linear: true
sequence_len: 128
sample_packing: true
micro_batch_size: 4
num_epochs: 20
learning_rate: 1e-3
RECIPE
  both lora-of-stories260K "$out/stories.yml"
fi
