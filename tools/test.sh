#!/bin/bash
# Installs what is missing, builds, and runs every test. Arguments go to ctest: tools/test.sh -R kernels
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install.sh
cmake --preset release
cmake --build --preset release
# Tests start ranks with mpirun: as root too, and more of them than there are cores.
# pml=ob1: without it, each start of ranks waits 0.2 s while Open MPI looks for the networks of clusters.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_pml=ob1
# They write and flush many small files: in memory, if there is enough.
if [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 8000000 ] 2>/dev/null &&
  [ "$(awk '/^MemAvailable/ {print $2}' /proc/meminfo)" -gt 12000000 ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts; then
  TMPDIR=$(mktemp -d /dev/shm/dml-XXXXXX)
  chmod 755 "$TMPDIR"  # some tests start the program as another user
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
fi
# One test more than there are cores, since many tests wait for programs that they have started.
ctest --preset release -j "$(($(nproc) + 1))" "$@"
