#!/bin/bash
# Tokenizing speed against libsentencepiece and the Rust tokenizers, two threads each, one after the other on the same texts
# (alpaca rows and 4 kB pieces of plain text, repeated to DML_MB megabytes, 100 unless set), then the ratios.
#   bench/tokenize.sh            needs build/release/bench/tokenize_bench, node, and `npm i tokenizers` (NODE_PATH names where)
# About two minutes. DML_DATA names the folder with datasets/ and tokenizers/.
cd "$(dirname "$0")/.." || exit 1
export DML_DATA=${DML_DATA:-../shared/data} RAYON_NUM_THREADS=2
bench=${BENCH:-build/release/bench/tokenize_bench}
[ -x "$bench" ] || { echo "$bench is not there: cmake --build --preset release --target tokenize_bench" >&2; exit 1; }
{
  "$bench" --benchmark_format=csv --benchmark_filter='^(dml/(gpt2|qwen2.5|llama3)|(dml-model|libsentencepiece)/llama2)/' 2>/dev/null |
    awk -F, 'NR > 1 { split($1, name, "/"); gsub(/"/, "", name[1]); printf "%s/%s %.2f MB/s\n", name[1], name[2], $NF }'
  node bench/tokenize_peer.js "$DML_DATA" gpt2 qwen2.5 llama3
} | awk '
  { print; rate[$1] = $2 }
  function ratio(ours, theirs, goal) {
    if (rate[theirs] > 0) printf "%-18s %6.2f x %-24s goal %.2f  %s\n", ours, rate[ours] / rate[theirs], theirs, goal,
                                 (rate[ours] < goal * rate[theirs] ? "MISSED" : "met")
  }
  END {
    ratio("dml-model/llama2", "libsentencepiece/llama2", 0.95)
    ratio("dml/gpt2", "rust/gpt2", 4); ratio("dml/qwen2.5", "rust/qwen2.5", 4); ratio("dml/llama3", "rust/llama3", 4)
  }'
