#!/usr/bin/env bash
# The pair of the page from nothing but its base: prompts, answers, AR SFT, the SFT's own answers, MARS from it, the score
# `calibrated`, the measurements. Every step goes on where it was interrupted. About four hours on two CPU cores; on a GPU
# `analysis/plans/gpu.sh pair` trains it (docs/gpu.md), which this measures, given what that gave:
#   WORK=runs/carry/pair bash analysis/plans/pair.sh --sft-minutes 4 --mars-minutes 12 --anchors 640 --batch-size 32 --places 256
# Options are those of `python -m mars.training pair`; --prompts FILE… are more questions for the masks to learn from (the card of
# smollm2-135m-mars names ours). WORK is the folder of the work. MEASURE=no leaves the adapters there, unmeasured.
set -euo pipefail
work=${WORK:-runs/pair} adapters=assets/adapters/smollm2-135m
python -m mars.training pair --output "$work" --problems 9000 --self-prompts 3000 --sft-rank 16 --rank 8 --masks 5 \
    --anchors 320 --max-length 400 --sft-minutes 40 --mars-minutes 120 --prompts analysis/plans/forms.jsonl "$@"
[ -f "$work/mars/mars.json" ] && ! grep -q '"paused": true' "$work/mars/mars.json" || exit 0
[ "${MEASURE:-yes}" = yes ] || exit 0
for stage in sft mars; do
    cmp -s "$work/$stage/adapter_model.safetensors" "$adapters-$stage/adapter_model.safetensors" && continue
    mkdir -p "$adapters-$stage"
    find "$work/$stage" -maxdepth 1 -type f -exec cp {} "$adapters-$stage/" \;
done
grep -q '"calibration"' "$adapters-mars/mars.json" || python -m analysis calibrate --checkpoint "$adapters-mars" ||
    echo "goes on without the score calibrated" >&2
python -m analysis reproduce pair pair-ifeval pair-verifiable pair-chat pair-kinds
python -m analysis measured
python -m analysis card --checkpoint "$adapters-mars" --baseline "$adapters-sft"
