#!/bin/bash
# The speed table: dml against PyTorch on the shapes of bench/recipes, run alternately, two threads each unless --threads says otherwise.
#   bench/compare.sh [--repeats N] [--steps N] [--threads N] [--realtime] [--bf16] [--long] [--with-7b] [S1 … S8, M1 … M3, 8k, 16k, 32k]
# A shape takes one to five minutes; without names all of them run. M1 and M2 are mixtures of experts, also compared with a dense
# model of the same cost per token; M3 is M2 on rows of natural length. --bf16 uses bfloat16 products on both sides. --long adds a
# document of 8192 tokens, --with-7b S8 (20 GB of disk in --folder, 24 GB of memory, half an hour). DML=path names another binary,
# PYTHON=path the Python whose PyTorch is the peer; where that has transformers and PEFT, their own classes are a peer as well.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml} PYTHON=${PYTHON:-/usr/bin/python3}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
# PyTorch's OpenBLAS treats a processor newer than itself as an old one; dml corrects this itself (see bench/LOG.md).
if [ -z "$OPENBLAS_CORETYPE" ] && grep -qw avx512vl /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX; fi
exec /usr/bin/python3 bench/compare.py "$@"
