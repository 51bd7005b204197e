#!/bin/bash
# The cost of GGUF files, each with its goal:
#   bench/gguf.sh [--folder DIR] [--threads N] [--repeats N] [--epochs N] [perplexity] [convert] [qlora]
#     perplexity  trains a model of 13.6M parameters on datasets/quickstart (three to four minutes on two cores), converts it, and
#                 compares the perplexity of its held-out rows: q8_0 at most 0.5 % above float32, q4_k_m at most 4 %
#     convert     1.1B random bfloat16 weights to q4_k_m: at most 20 s and 1 GB (a minute; 3 GB of disk)
#     qlora       a LoRA step on a q4_k_m base against one on nf4: at least 0.9 of its speed (two minutes; 1 GB of disk)
# Files are in --folder, which is kept if given. DML=path names another binary.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
exec /usr/bin/python3 bench/gguf.py "$@"
