#!/bin/bash
# Train on as many machines as there are at the moment, and go on when some leave or come: run this on each of them.
#   HEAD=first-machine:29500 NODES=1:4 GPUS=8 examples/elastic.sh RECIPE OUTPUT [key=value …]
# When a process dies, torchrun starts all of them anew, and --resume goes on from the newest good checkpoint: the updates are
# the same for any number of processes, so nothing is lost but the work since then (training.save_every).
set -euo pipefail

recipe=$1 output=$2
shift 2
exec "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes "${NODES:-1:4}" --nproc-per-node "${GPUS:-8}" --max-restarts "${RESTARTS:-100}" \
    --rdzv-backend c10d --rdzv-id "${JOB:-regard}" --rdzv-endpoint "${HEAD:-localhost:29500}" \
    -m regard train "$recipe" "output=$output" "$@" --resume
