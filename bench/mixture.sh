#!/bin/bash
# A large mixture of experts on a small machine: random weights in shards, the plan before any is read, NF4 from the files in
# constant memory, and a QLoRA step under a limit of memory. Every stage is checked; exit 1 where one fails.
#   bench/mixture.sh [--layers N] [--experts N] [--layers-with-values N] [--limit-gb N] [--folder DIR] [--keep] [RECIPE]
# RECIPE is bench/recipes/M30.yml, which wants 61 GB of disk for the weights and 17 GB for their NF4; --layers-with-values 16
# leaves 40 GB of holes in the files. --layers and --experts make the shape smaller. DML=path names another binary.
cd "$(dirname "$0")/.." || exit 1
export DML=${DML:-build/release/dml}
[ -x "$DML" ] || { echo "$DML is not there: cmake --preset release && cmake --build --preset release --target dml" >&2; exit 1; }
exec /usr/bin/python3 bench/mixture.py "$@"
