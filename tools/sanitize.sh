#!/bin/bash
# Trains, resumes and generates with a small model of every family, and serves one to hostile and to many clients, with a program
# built with sanitizers. It fails at the first error that they report.
#   tools/sanitize.sh [address|short|thread] [PROGRAM]
# address (the default): AddressSanitizer and UndefinedBehaviorSanitizer; each family with full training and one kind of adapter
# in turn, on the portable, AVX2 and AVX-512 loops in turn. With DML_LONG=1: each family with every kind of adapter.
# short: every family and every kind as by default, mostly on the portable loops, but full training is not resumed and there is no
# server. The tests run it.
# thread: ThreadSanitizer; three families with full training and two kinds of adapters, on four threads.
# ONLY=serve skips all training that the server does not need.
# Without PROGRAM it builds dml_sanitized_server for "address", dml_sanitized for "short" (`core`, the loops of this processor
# and the constraints of requests are then compiled without sanitizers), dml_thread_sanitized for "thread".
set -euo pipefail
cd "$(dirname "$0")/.."

sanitizer=${1:-address}
case $sanitizer in
  address) target=dml_sanitized_server flags=address,undefined threads=2 jobs=1 ;;
  short) target=dml_sanitized flags=address,undefined threads=1 jobs=$(nproc) ;;
  thread) target=dml_thread_sanitized flags=thread threads=4 jobs=1 ;;
  *) echo "usage: tools/sanitize.sh [address|short|thread] [PROGRAM]" >&2; exit 2 ;;
esac
if ! echo 'int main() {}' | c++ -x c++ - -fsanitize=$flags -o /dev/null 2>/dev/null; then
  echo "skipped: this compiler has no runtime library for -fsanitize=$flags"
  exit 0
fi
if [ $# -gt 1 ]; then
  dml=$(realpath "$2")
else
  cmake --preset release >/dev/null
  cmake --build --preset release --target $target
  dml=$PWD/build/release/$target
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# MPI and global tables are not freed at exit.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"
head -n 14 datasets/quickstart/pirate.jsonl >"$work/rows.jsonl"

families=()
for model in tests/golden/*/model/config.json; do
  family=$(basename "${model%/model/config.json}")
  [ "$family" = traces ] || families+=("$family")
done
kinds=(tied tokens lora dora qlora int8 qdora relora modules rslora bf16)
declare -A keys=(
  [full]="optimizer: adamw_torch"
  [lora]=$'adapter: lora\nlora_dropout: 0.1\noptimizer: lion\nsample_packing: true'
  [dora]=$'adapter: lora\npeft_use_dora: true\noptimizer: adamw_8bit\ngradient_checkpointing: true'
  [qlora]=$'adapter: qlora\nload_in_4bit: true\noptimizer: adamw_8bit'
  [int8]=$'adapter: lora\nload_in_8bit: true\noptimizer: lion_8bit\ngradient_checkpointing: mlp'
  [qdora]=$'adapter: qlora\nload_in_4bit: true\npeft_use_dora: true\nlora_dropout: 0.1\noptimizer: sgd'
  [relora]=$'adapter: lora\nrelora: true\njagged_restart_steps: 2\njagged_restart_warmup_steps: 0\noptimizer: adamw_torch\nfrozen_storage: bf16'
  [modules]=$'adapter: lora\nlora_modules_to_save: [embed_tokens]\nneftune_noise_alpha: 5\noptimizer: adamw_torch'
  [tokens]=$'adapter: lora\npeft_trainable_token_indices: [5, 9, 31]\noptimizer: adamw_torch'
  [tied]=$'adapter: lora\nlora_modules_to_save: [embed_tokens, lm_head]\npeft_ensure_weight_tying: true\noptimizer: adamw_torch'
  [bf16]=$'adapter: lora\nbf16: true\noptimizer: adamw_torch'
  [rslora]=$'adapter: lora\npeft_use_rslora: true\nactivation_storage: bf16\noptimizer: adamw_torch'
)

# FAMILY KIND ISA: trains, resumes from the middle, generates; where "short" trains all weights, that is all.
try() {
  local family=$1 kind=$2 folder=$work/$1-$2
  mkdir -p "$folder"
  {
    if [ "$kind" = full ]; then
      echo "tokenizer_config: datasets/quickstart/tokenizer"
      echo "model_config: $(tr -d '\n' <"tests/golden/$family/model/config.json" |
        sed -E 's/"vocab_size": *[0-9]+/"vocab_size": 2048/; s/"(max_position_embeddings|n_positions|max_seq_len)": *[0-9]+/"\1": 256/')"
    else
      echo "base_model: $work/$family-full/out"
      echo "lora_r: 4"
      echo "lora_alpha: 8"
      echo "lora_target_linear: true"
    fi
    case $family in  # what the family calls its embedding and its head
      gpt2* | mpt) echo "${keys[$kind]/embed_tokens/wte}" ;;
      falcon* | bloom) echo "${keys[$kind]/embed_tokens/word_embeddings}" ;;
      gpt_neox*) echo "${keys[$kind]/embed_tokens/embed_in}" | sed 's/lm_head/embed_out/' ;;
      *) echo "${keys[$kind]}" ;;
    esac
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
threads: $threads
output_dir: $folder/out
YAML
  } >"$folder/recipe.yml"
  export DML_ISA=$3
  {
    "$dml" train "$folder/recipe.yml" &&
      if [ $sanitizer-$kind != short-full ]; then
        rm -rf "$folder/out/checkpoint-4" &&
          "$dml" train "$folder/recipe.yml" --resume "$folder/out/checkpoint-2" &&
          "$dml" infer "$folder/recipe.yml" --prompt "Where does a lion sleep?" --max-new-tokens 6
      fi
  } >"$folder/log" 2>&1 || {
    printf 'failed: %s, %s, DML_ISA=%s\n%s\n' "$family" "$kind" "$DML_ISA" "$(tail -n 40 "$folder/log")"
    return 1
  }
  echo "ok: $family, $kind, ${DML_ISA:-best loops}"
}

# A model and an adapter of the family, served: malformed requests, clients that leave, then mixed load with known answers.
serve() {
  local base=$work/$1-full/out python=python3
  [ -x /usr/bin/python3 ] && python=/usr/bin/python3
  command -v "$python" >/dev/null || { echo "skipped: serve, python3 is not there"; return 0; }
  export DML_ISA=""
  local words=(--dml "$dml" --base-model "$base" --adapter "lora=$work/$1-lora/out")
  {
    "$python" tests/clients/abuse.py "${words[@]}" --requests 200 --slow 8 --leaving 24 &&
      "$python" tests/clients/soak.py "${words[@]}" --seconds 10 --kinds 42
  } >"$work/serve.log" 2>&1 || {
    echo "failed: serve"
    tail -n 60 "$work/serve.log"
    return 1
  }
  echo "ok: serve, under abuse and mixed load"
}

# FAMILY TURN: full training, and every `every`-th kind of adapter from TURN on.
try_family() {
  local failed=0 run=$((2 * $2)) k
  try "$1" full "${isas[run++ % 4]}" || return 1
  for ((k = $2 % every; k < ${#kinds[@]}; k += every)); do
    try "$1" "${kinds[k]}" "${isas[run++ % 4]}" || failed=1
  done
  return $failed
}

failed=0 turn=0
isas=("" portable avx2 "")  # "": the best that this processor has
grep -q ' avx2 ' /proc/cpuinfo || isas=("" "" "" "")
[ $sanitizer != short ] || isas=("" portable portable portable)
# `every`: one of so many kinds is tested with a family.
case $sanitizer in
  thread) families=(llama_tiny gemma2 gpt2) kinds=(lora qlora) every=1 ;;
  address | short) every=${#kinds[@]} ;;
esac
[ -z "${DML_LONG:-}" ] || every=1
if [ "${ONLY:-}" = serve ]; then
  try llama_tiny full "" && try llama_tiny lora "" && serve llama_tiny && exit 0
  exit 1
fi
started=()
for family in "${families[@]}"; do
  [ $turn -lt "$jobs" ] || wait -n || true
  try_family "$family" $turn &
  started+=($!)
  turn=$((turn + 1))
done
for job in "${started[@]}"; do wait "$job" || failed=1; done
[ $sanitizer = short ] && exit $failed
[ -d "$work/llama_tiny-lora" ] || try llama_tiny lora "" || failed=1
serve llama_tiny || failed=1
exit $failed
