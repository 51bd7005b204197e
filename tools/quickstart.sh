#!/bin/bash
# dml end to end: a tokenizer, a small model from scratch, then an adapter that makes it talk like a pirate.
set -euo pipefail
cd "$(dirname "$0")/.."

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1;36m' dim=$'\e[2m' plain=$'\e[0m'; fi
heading() { printf '\n%s── %s%s\n' "$bold" "$1" "$plain"; }
shown() { printf '%s$ %s%s\n' "$dim" "$*" "$plain"; "$@"; }

dml=build/release/dml
out=outputs/quickstart
held_out=datasets/quickstart/heldout.jsonl
export OMPI_MCA_rmaps_base_oversubscribe=1            # two ranks, also where there is one core
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi

heading "Building dml"
tools/install.sh
cmake --preset release >/dev/null
cmake --build --preset release --target dml
rm -rf "$out"
mkdir -p "$out"
started=$SECONDS

heading "1  A tokenizer: 2048 tokens from plain English; the words around a question are one token each"
shown $dml tokenizer train datasets/quickstart/plain_text.jsonl datasets/quickstart/plain_questions.jsonl \
  --output $out/tokenizer --vocab-size 2048 --character-coverage 1 --token '\n\n' --token '\n' \
  --token 'Below is an instruction that describes a task. Write a response that appropriately completes the request.' \
  --token '### Instruction:' --token '### Response:'

heading "2  A small language model from scratch: plain English"
shown $dml train recipes/quickstart/pretrain.yml

heading "3  What the adapter is trained on: prompts are masked, answers are trained"
shown $dml preprocess recipes/quickstart/pirate-lora.yml
shown $dml inspect recipes/quickstart/pirate-lora.yml --rows 3

heading "4  LoRA on the frozen base, two ranks"
shown mpirun -np 2 $dml train recipes/quickstart/pirate-lora.yml

heading "5  Before and after"
shown $dml evaluate recipes/quickstart/pirate-lora.yml
shown $dml infer recipes/quickstart/pretrain.yml --input $held_out --output $out/before.jsonl --greedy --max-new-tokens 64
shown $dml infer recipes/quickstart/pirate-lora.yml --input $held_out --output $out/after.jsonl --greedy --max-new-tokens 64

field() { sed -E 's/.*"'"$1"'": *"(([^"\\]|\\.)*)".*/\1/; s/\\n/ /g; s/\\"/"/g' "$2"; }
printf '\nQuestions that are in no training data, about things that the adapter has not seen:\n\n'
paste -d $'\t' <(field instruction $held_out) <(field output $out/before.jsonl) <(field output $out/after.jsonl) |
  awk -F '\t' 'NR % 12 == 1' |
  while IFS=$'\t' read -r question before after; do
    printf '%s%s%s\n    before  %s\n    after   %s\n' "$bold" "$question" "$plain" "$before" "$after"
  done
before=$(tools/pirate_share.sh $out/before.jsonl)
after=$(tools/pirate_share.sh $out/after.jsonl)
printf '\nAnswers that sound like a pirate: before %s, after %s.\n' "$before" "$after"

heading "Done in $((SECONDS - started)) seconds"
echo "report   $out/pirate/report.html"
echo "picture  $out/pirate/loss.svg"
echo "adapter  $out/pirate/adapter_model.safetensors"
echo "talk     $dml infer recipes/quickstart/pirate-lora.yml --prompt 'Where does a lion sleep?'"
# The documented result: at least 90 of 100 after training, at most 5 before.
[ "${after%% *}" -ge 90 ] && [ "${before%% *}" -le 5 ]
