#!/bin/bash
# Installs what is missing, builds, and runs every test. Arguments go to ctest: tools/test.sh -R kernels
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install.sh
cmake --preset release
cmake --build --preset release
# Tests start ranks with mpirun: as root too, and more of them than there are cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
ctest --preset release "$@"
