#!/usr/bin/env bash
# Trains what claims 1 and 2 compare on the pretrained model: merged adapters for blocks of 4 and 8, each with and without
# the SFT loss, and a LoRA by plain SFT on twice the conversations, which take about as much time as those with masks. All
# start from the base, on the same conversations in the same order. An adapter that is there is skipped; one that was
# interrupted goes on from its last save. With a name, only that one. JOBS of them train at once:
#   OMP_NUM_THREADS=1 JOBS=2 analysis/plans/real-ablations.sh
# The conversations are in the repository's history: python -m analysis reproduce merged-adapter
set -euo pipefail
out=${OUT:-runs/real-ablations}
shipped=assets/adapters/smollm2-135m-gated
data=${DATA:-$shipped/conversations.jsonl $shipped/conversations-2.jsonl}
epochs=${EPOCHS:-0.082} # 72 steps of 4 conversations
common="--base ${BASE:-smollm2-135m} --save-steps 20 ${OPTIONS:-}"

train() { # name, epochs, options
  local name=$1 epochs=$2
  shift 2
  if [ -f "$out/$name/mars.json" ]; then return; fi
  local resume=""
  if compgen -G "$out/$name/work/checkpoint-*/trainer_state.json" > /dev/null; then resume=--resume; fi
  # shellcheck disable=SC2086 # words are meant to be split
  python -m mars.training adapter --output "$out/$name" --data $data $common --epochs "$epochs" "$@" $resume
}

if [ $# -eq 0 ]; then # those that take longest first
  printf '%s\n' merged-b8 merged-b8-no-sft sft-double merged-b4 merged-b4-no-sft |
    xargs -P "${JOBS:-1}" -I NAME bash "$0" NAME
  exit
fi
case $1 in
  merged-b4) train "$1" "$epochs" --masks 3 ;;
  merged-b8) train "$1" "$epochs" --masks 7 ;;
  merged-b4-no-sft) train "$1" "$epochs" --masks 3 --sft-weight 0 ;;
  merged-b8-no-sft) train "$1" "$epochs" --masks 7 --sft-weight 0 ;;
  sft-double) train "$1" "$(awk "BEGIN { print 2 * $epochs }")" --masks 0 ;;
  *) echo "no adapter is named $1" >&2 && exit 2 ;;
esac
