#!/bin/bash
# Kills a random rank of a training run at random moments and resumes with --resume auto on 1, 2 or 4 ranks until the run is
# complete; its results must equal those of an uninterrupted run. Repeats with new runs until there were KILLS kills.
#   tools/fault/kill_resume.sh path/to/dml RECIPE [KILLS]
set -euo pipefail
dml=$(realpath "$1") recipe=$2 kills=${3:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

started=$(date +%s%N)
"$dml" train "$recipe" --resume none --output_dir "$work/whole" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
whole=$((($(date +%s%N) - started) / 1000000))
echo "uninterrupted: $whole ms"

struck=0 starts=0 runs=0
while ((struck < kills)); do
  runs=$((runs + 1))
  rm -rf "$work/killed"
  while true; do
    ranks=$((1 << RANDOM % 3)) starts=$((starts + 1))
    mpirun --oversubscribe --bind-to none -np $ranks "$dml" train "$recipe" --resume auto --output_dir "$work/killed" >"$work/log" 2>&1 &
    job=$!
    if ((struck < kills)); then
      sleep "$(awk "BEGIN { srand($RANDOM); print 0.3 + rand() * $whole / 2000 }")"
      victim=$(pgrep -P $job | shuf -n 1 || true)
      if [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null; then struck=$((struck + 1)); fi
    fi
    if wait $job; then break; fi
    ! ls "$work"/killed/checkpoint-* >/dev/null 2>&1 || "$dml" ckpt verify "$work/killed" >"$work/verify" 2>&1 || {
      echo "a damaged checkpoint was left"
      cat "$work/verify"
      exit 1
    }
  done
  for file in "$work"/whole/*.safetensors; do
    cmp "$file" "$work/killed/$(basename "$file")"
  done
done
echo "$struck kills, $starts starts, $runs runs: all results are the same as without kills, byte for byte"
