#!/bin/bash
# How many answers sound like a pirate: tools/pirate_share.sh ANSWERS.jsonl prints "97 of 100".
# An answer ("output" of a row) does if it contains two different words of datasets/quickstart/pirate_words.txt.
set -euo pipefail
words="$(dirname "$0")/../datasets/quickstart/pirate_words.txt"
sed -E 's/.*"output": *"(([^"\\]|\\.)*)".*/\1/; s/\\n/ /g' "$1" | awk '
  NR == FNR { pirate[$1] = 1; next }
  {
    found = 0
    split("", seen)
    n = split(tolower($0), word, /[^a-z'"'"']+/)
    for (i = 1; i <= n; ++i) if (word[i] in pirate && !(word[i] in seen)) { seen[word[i]] = 1; ++found }
    if (found >= 2) ++share
  }
  END { printf "%d of %d\n", share, FNR }' "$words" -
