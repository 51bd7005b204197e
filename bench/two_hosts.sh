#!/bin/bash
# One rank on one host against two hosts of one rank each over a slow link (tools/two_hosts.sh), one thread a rank, the same
# global batch: seconds a step, ratio and goal, and the prediction of `dml plan --ranks 2`.
#   [RATE=1gbit] bench/two_hosts.sh [--repeats N] [--steps N] [lora] [full] [strategies]
# Needs root and two idle cores.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-$PWD/build/release/dml} RATE=${RATE:-1gbit}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
exec tools/two_hosts.sh /usr/bin/python3 bench/two_hosts.py "$@"
