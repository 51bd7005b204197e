#!/bin/bash
# Fuzzes the readers of files, recipes, templates and constraints (tests/fuzz/fuzz.cpp) with libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer. Needs libFuzzer (Debian: libclang-rt-14-dev).
#   tools/fuzz.sh [SECONDS [TARGET …]]     60 seconds for each target by default
# Inputs that reach new code are kept in build/fuzz/corpus and are the start of the next run. An input that is a finding is written
# to build/fuzz/findings/TARGET; `build/release/dml_fuzz --target=TARGET FILE` repeats it. Fails if there is a finding.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
work=build/fuzz
program=build/release/dml_fuzz
cmake --preset release >/dev/null
if ! cmake --build --preset release --target help | grep dml_fuzz >/dev/null; then
  echo "skipped: libFuzzer is missing (libclang-rt-14-dev)"
  exit 0
fi
cmake --build --preset release --target dml dml_fuzz

# Small files of the tests, of build/fuzz/seeds/TARGET and, where they are there, of the shared data.
seeds() {
  local names
  case $1 in
    json | json_array) names=(-name '*.json') ;;
    recipe) names=(-name '*.yml' -o -name '*.yaml') ;;
    model_config) names=(-name config.json) ;;
    adapter_config) names=(-name adapter_config.json -o -path '*peft-configs*.json') ;;
    chat_template) names=(-name '*.jinja') ;;
    tokenizer_json) names=(-name tokenizer.json) ;;
    sentencepiece) names=(-name tokenizer.model) ;;
    onig_pattern)
      names=(-name '*.pattern')
      python3 - "$work/seeds/$1" <<'END' >&2
import json, sys
for i, row in enumerate(json.load(open("tests/golden/tokenizer/rust.json"))["patterns"]):
    open(f"{sys.argv[1]}/{i}.pattern", "w").write(row["pattern"].replace("\n", " ") + "\n" + row["text"])
END
      ;;
    safetensors) names=(-name '*.safetensors') ;;
    gguf)
      names=(-name '*.gguf')
      [ -f "$work/seeds/gguf/tiny.gguf" ] || build/release/dml convert tests/golden/llama_tiny/model --format gguf --dtype q8_0 \
        --output "$work/seeds/gguf/tiny.gguf" >&2
      ;;
    json_lines) names=(-name '*.jsonl') ;;
    csv) names=(-name '*.csv' -o -name '*.tsv') ;;
    parquet) names=(-name '*.parquet') ;;
    arrow) names=(-name '*.arrow') ;;
    grammar) names=(-name '*.gbnf') ;;
    *) return ;;
  esac
  local folders=(tests recipes examples datasets "$work/seeds/$1")
  [ ! -d ../shared/data ] || folders+=(../shared/data)
  find "${folders[@]}" -type f -size -100k \( "${names[@]}" \) | sort | awk 'NR <= 400'
}

mkdir -p $work/findings
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <($program --targets)
found=0
for target in "${targets[@]}"; do
  corpus=$work/corpus/$target
  mkdir -p "$corpus" "$work/findings/$target" "$work/seeds/$target"
  seeds "$target" | while read -r file; do
    cp -n "$file" "$corpus/$(sha1sum <"$file" | cut -c1-40)"
  done
  echo "== $target, $seconds s"
  if ! ASAN_OPTIONS=detect_leaks=0 $program --target="$target" "$corpus" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2500 \
    -max_len=100000 -artifact_prefix="$work/findings/$target/" -print_final_stats=1 >"$work/$target.log" 2>&1; then
    found=1
    grep -m3 -E 'ERROR|SUMMARY|runtime error|terminate called|what\(\)' "$work/$target.log" || tail -n 3 "$work/$target.log"
  fi
  grep -E 'stat::number_of_executed_units|cov:' "$work/$target.log" | tail -n 2
done
exit $found
