#!/bin/bash
# Memory of a rank in full fine-tuning of S3's shape with AdamW on four ranks, under every strategy: the ideal (weights,
# gradients and state, divided by the ranks where they are sharded), the strategy's own figure, and the peak of the process
# beyond program, activations and data. Goal: within a tenth of ideal.
#   bench/sharding_memory.sh [--ranks N] [ddp zero1 zero2 zero3 hybrid]
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
exec /usr/bin/python3 bench/sharding_memory.py "$@"
