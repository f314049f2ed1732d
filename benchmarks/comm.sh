#!/usr/bin/env bash
# Collectives and training steps on 1 to 8 ranks of this host, and where scaling would end: benchmarks/comm.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-500}
bench=build/cpu/bin/bench-comm
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
export OMP_NUM_THREADS=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0
for ranks in 1 2 3 4 8; do
  mpiexec --oversubscribe --bind-to none -n "$ranks" "$bench" "$rounds" "$lines"
  echo
done
"$bench" --fit "$lines"
