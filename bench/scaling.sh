#!/bin/bash
# Two ranks against one, one thread each, the same two micro-batches a step: step times in turns, medians, ratio and goals.
#   bench/scaling.sh [--repeats N] [--steps N] [lora] [full]
#
# Ranks run with --bind-to none. Open MPI's default binds each of two ranks to one core, which only suits one thread
# per rank; the single rank runs unbound as well, so that the kernel may move both in the same way.
# Set BIND="--bind-to core" to compare.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml} BIND=${BIND:---bind-to none}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
exec /usr/bin/python3 bench/scaling.py "$@"
