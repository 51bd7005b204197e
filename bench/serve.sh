#!/bin/bash
# dml serve: throughput at 1, 4 and 16 clients against the engine alone and llama.cpp, time between tokens while a long prompt is
# read, and the server's own cost per token. Prints measured, goal and pass.
#   bench/serve.sh --tokenizer DIR [--folder DIR] [--threads N] [--tokens N] [--repeats N] [--recipe FILE] [--peer FOLDER]
# The model is random, of bench/recipes/serve.yml (2.2 GB in --folder, kept). --tokenizer: a folder with a tokenizer of 32000
# tokens, such as any Llama 2's. --peer: a folder in which `npm install node-llama-cpp` was run; without it llama.cpp is left out.
# About ten minutes on two cores, once the model exists. DML=path names another binary.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
exec /usr/bin/python3 bench/serve.py "$@"
