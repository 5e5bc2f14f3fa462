#!/bin/sh
# A sweep as a Slurm array of independent parts, each on one node:
#   sbatch --array=0-7 experiments/cluster/slurm-array.sh experiments/demo.yaml results
# and when all have ended
#   kvtide merge results/demo.h5 results/part-*.h5
# A part that was killed or failed is submitted again with the same command: --resume keeps its finished runs.
#SBATCH --job-name=kvtide
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --output=kvtide-%A-%a.log
set -eu
experiment=$1
folder=$2
mkdir -p "$folder"
# --shard auto reads SLURM_ARRAY_TASK_ID, SLURM_ARRAY_TASK_MIN and SLURM_ARRAY_TASK_COUNT.
exec "${KVTIDE:-kvtide}" run "$experiment" -o "$folder/part-$SLURM_ARRAY_TASK_ID.h5" \
  --shard auto --resume --quiet --jobs "${SLURM_CPUS_PER_TASK:-1}"
