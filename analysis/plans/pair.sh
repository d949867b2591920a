#!/usr/bin/env bash
# The pair of the page from nothing but its base: prompts, answers, AR SFT, the SFT's own answers, MARS from it, the score
# `calibrated`, the measurements. Every step goes on where it was interrupted. About four hours on two CPU cores; on a GPU, not tried yet:
#   bash analysis/plans/pair.sh --sft-minutes 5 --mars-minutes 15 --anchors 640 --batch-size 64 --places 256
# Options are those of `python -m mars.training pair`: --prompts FILE… are more questions for the masks to learn from (the card of
# smollm2-135m-mars names ours). OUT is the folder of the work. MEASURE=no leaves the measuring out.
set -euo pipefail
out=${OUT:-runs/pair} adapters=${ADAPTERS:-assets/adapters/smollm2-135m}
python -m mars.training pair --output "$out" --problems 9000 --self-prompts 3000 --sft-rank 16 --rank 20 --masks 5 \
    --anchors 320 --max-length 400 --sft-minutes 40 --mars-minutes 120 "$@"
for stage in sft mars; do
    mkdir -p "$adapters-$stage"
    find "$out/$stage" -maxdepth 1 -type f -exec cp {} "$adapters-$stage/" \;
done
[ "${MEASURE:-yes}" = yes ] || exit 0
python -m analysis calibrate --checkpoint "$adapters-mars"
python -m analysis reproduce pair pair-ifeval pair-chat pair-kinds
python -m analysis measured
python -m analysis card --checkpoint "$adapters-mars" --baseline "$adapters-sft"
