#!/usr/bin/env bash
# On a lent GPU, in calls of under ten minutes: bash analysis/plans/gpu.sh tests|train|bench DIR (docs/gpu.md)
set -euo pipefail
what=${1:?tests, train or bench}; out=${2:?a folder}; mkdir -p "$out"
base=${BASE:-smollm2-135m} device=${DEVICE:-cuda} adapter=${ADAPTER:-$out/adapter}
export PYTHONPATH=.:tests PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
case $what in
    tests) python -m pytest -q -m gpu -W default tests/mars tests/mars_kernels ;;
    train)
        sizes=(--rank 32 --masks 7 --block-size 4 --anchors 640 --batch-size 16 --minutes 17 --pause-after 8.5)
        [ -z "${TINY:-}" ] || sizes=(--rank 2 --masks 2 --block-size 2 --anchors 8 --batch-size 2 --minutes 0.2)
        [ ! -e "$out/adapter/mars.json" ] && [ ! -d "$out/adapter" ] || sizes+=(--resume)
        python -m mars.training adapter --base "$base" --output "$out/adapter" --save-steps 500 "${sizes[@]}" \
            --data ${DATA:?JSONL files of conversations} ;;
    bench)
        sizes=1,4,16,64 limit=5
        [ -z "${TINY:-}" ] || sizes=1 limit=1
        python -m analysis bench --device "$device" --checkpoint "$adapter" --dtype bfloat16 --no-generate \
            --questions assets/benchmarks/spec_bench/question.jsonl --limit $limit --batch-sizes $sizes --max-new-tokens 64 \
            --decoders sliding_window@none,sliding_window@0.95,sliding_window@0.5,self_speculative/quadratic --json |
            tee /dev/stderr | tail -n 1 > "$out/bench.json" ;;
    *) echo "tests, train or bench" >&2; exit 2 ;;
esac
