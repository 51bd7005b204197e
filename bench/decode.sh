#!/bin/bash
# Generating text from GGUF files of one model in 16, 8 and 4 bits, dml and llama.cpp by turns: tokens a second of one prompt, of
# eight together, and of reading a prompt of 512. Prints both, their ratio, and what one prompt reads of the memory's rate.
#   bench/decode.sh --tokenizer DIR --peer FOLDER [--folder DIR] [--threads N] [--tokens N] [--repeats N] [--bf16 auto] [TYPE …]
# TYPE is one of dml convert's: bf16, q8_0, q4_0, q4_k_m (all four). The model, --tokenizer and --peer are those of bench/serve.sh;
# --bf16 is the option of dml serve (auto). The memory's rate is that of decode_bench, if it is built.
# About two minutes a type and repeat on two cores, once the files exist (5 GB). DML=path names another binary.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
exec /usr/bin/python3 bench/decode.py "$@"
