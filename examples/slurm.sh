#!/bin/bash
# Train a recipe on several machines of a SLURM cluster: sbatch examples/slurm.sh RECIPE OUTPUT [key=value …]
# The output folder, the data and REGARD_CACHE must lie where all machines see them.
#SBATCH --job-name=regard
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
set -euo pipefail

recipe=$1 output=$2
shift 2
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${hosts%%$'\n'*}

# Two minutes before the end SLURM sends SIGTERM: every process saves after its update. Back in the queue, the job goes on.
srun --kill-on-bad-exit=1 torchrun \
    --nnodes "$SLURM_NNODES" --nproc-per-node "${SLURM_GPUS_ON_NODE:-8}" \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:29500" \
    -m regard train "$recipe" "output=$output" "$@" --resume &
step=$!
trap 'kill -TERM "$step"; wait "$step" || true; scontrol requeue "$SLURM_JOB_ID"' TERM
wait "$step"
