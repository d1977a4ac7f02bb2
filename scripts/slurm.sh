#!/bin/bash
# Pretraining on several nodes under SLURM; it goes on where it stopped after a time limit or a preemption.
#
#   sbatch scripts/slurm.sh imagenet/hnpm --data /path/to/imagenet/train --run runs/imagenet-hnpm
#
#SBATCH --job-name=hardpair
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the end this script gets SIGTERM and hands it on: the run saves and ends.
#SBATCH --signal=B:TERM@120
set -uo pipefail

# torchrun kills what has not saved 30 seconds after the SIGTERM, if nothing is said.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=110
# A new store at each start: the nodes do not agree on how often they were started, nor find each other in an old one.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
stopped=no
trap 'stopped=yes; kill -TERM "$step"' TERM
srun torchrun \
  --nnodes="$SLURM_JOB_NUM_NODES" \
  --nproc-per-node="$SLURM_GPUS_ON_NODE" \
  --max-restarts=3 \
  --rdzv-id="$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}" \
  --rdzv-backend=c10d \
  --rdzv-endpoint="$first_node:29500" \
  -m hardpair -- pretrain "$@" --resume &
step=$!
wait "$step"
code=$?
if [ "$stopped" = yes ]; then # the signal ended the wait, not the run
  wait "$step"
  echo "saved; the job goes back into the queue"
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit "$code"
