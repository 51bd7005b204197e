#!/bin/bash
# How much of a GRPO step goes into the engine's batch rate and the training step's rate: the step against dml infer on the same
# prompts and a supervised step on the same tokens. Goal: 0.8. About three minutes on two cores; --smoke: seconds, a tiny model.
#   bench/grpo.sh [--steps N] [--generations G] [--length N] [--prompts N] [--hidden N] [--layers N] [--smoke]
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
exec /usr/bin/python3 bench/grpo.py "$@"
