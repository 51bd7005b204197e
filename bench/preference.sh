#!/bin/bash
# Preference training: a DPO step against a supervised step on the same tokens, with the reference in every step and precomputed,
# and against a DPO loop in PyTorch. About five minutes on two cores; --smoke: seconds, tiny models, only to check that it runs.
#   bench/preference.sh [--repeats N] [--steps N] [--smoke]
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
if [ -z "$OPENBLAS_CORETYPE" ] && grep -qw avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX; fi
exec /usr/bin/python3 bench/preference.py "$@"
