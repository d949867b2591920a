#!/usr/bin/env bash
# Trains what analysis/plans/*.toml compare, all from the shipped AR checkpoint and on the same conversations, but for
# the drafts, which are smaller models trained in the same two stages. What is there is skipped; what was interrupted
# goes on from its last save. Several hours on one core; on two:
#   OMP_NUM_THREADS=1 LAUNCH="torchrun --nproc_per_node 2 -m" BATCH="--batch-size 16 --gradient-accumulation 2" \
#     analysis/plans/ablations.sh
set -euo pipefail
out=${OUT:-runs/ablations}
start=assets/checkpoints/ar-sft
launch=${LAUNCH:-python -m}
batch=${BATCH:---batch-size 64}
examples=${EXAMPLES:-48000}
common="--data-seed 7 --drill-share 0.1 --optimizer muon --learning-rate 2e-3 --weight-decay 0.01 $batch"

train() { # name, stage, options
  local name=$1 stage=$2
  shift 2
  if [ -f "$out/$name/model.safetensors" ]; then return; fi
  local resume=""
  if [ -d "$out/$name/work" ]; then resume=--resume; fi
  # shellcheck disable=SC2086 # words are meant to be split
  $launch mars.training "$stage" --output "$out/$name" $common "$@" $resume
}

mars() { train "$1" mars --checkpoint $start --examples "$examples" "${@:2}"; }

for size in 8 4 16; do mars mars-b$size --block-size $size; done
# The largest block once more, on other conversations, for analysis/plans/one-token.toml.
mars mars-b16-seed8 --block-size 16 --data-seed 8
for size in 8 4 16; do mars mars-b$size-no-sft --block-size $size --no-sft-loss; done
# Twice the conversations: as many forward passes over tokens as the two streams of MARS take.
train ar-double sft --checkpoint $start --examples $((2 * examples))
# (The block diffusion model of claim 8 was trained and measured at commit 4ebfdf5, the last that could.)

# Drafts for speculative decoding: a fifth of the shipped model's size, with its vocabulary.
train draft-ar sft --tokenizer $start --layers 2 --hidden-size 128 --examples "${DRAFT_EXAMPLES:-128000}" \
  --data-seed 0 --drill-share 0.3 --learning-rate 4e-3
train draft-mars mars --checkpoint "$out/draft-ar" --examples "$examples" --block-size 8
