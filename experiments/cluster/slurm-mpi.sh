#!/bin/sh
# A sweep on the ranks of one MPI job: rank 0 hands runs out one by one, so that no rank waits for another.
#   sbatch --ntasks=64 experiments/cluster/slurm-mpi.sh experiments/demo.yaml results/demo.h5
# Needs a kvtide built with MPI (kvtide --version says so). Killed: the same command again.
#SBATCH --job-name=kvtide
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --time=04:00:00
#SBATCH --output=kvtide-%j.log
set -eu
unset SLURM_ARRAY_TASK_ID || true
exec "${MPIRUN:-mpirun}" ${MPIRUN_FLAGS:-} "${KVTIDE:-kvtide}" run "$1" -o "$2" --resume --quiet
