#!/usr/bin/env bash
# A real model in the run store: Spec-Bench, and IFEval under every threshold and exactly, on the clock. Run it alone on an
# idle machine; interrupted, the same command goes on.
#   analysis/plans/real-model.sh BASE GATED [MERGED]       checkpoint sources
set -euo pipefail
base=$1 gated=$2 merged=${3:-}
runs=${RUNS:-assets/runs}
python=${PYTHON:-.venv/bin/python}
thresholds="sliding_window@none,sliding_window@0.99,sliding_window@0.95,sliding_window@0.9,sliding_window@0.8"
thresholds+=",sliding_window@0.7,sliding_window@0.5"
exact="self_speculative/auto,self_speculative/quadratic"

for checkpoint in "$gated" ${merged:+"$merged"}; do
    "$python" -m analysis spec-bench --checkpoint "$checkpoint" --baseline "$base" \
        --decoders "autoregressive,$exact,sliding_window@0.95" --runs "$runs"
    "$python" -m analysis ifeval --checkpoint "$checkpoint" --baseline "$base" \
        --decoders "autoregressive,$thresholds,$exact" --timed --runs "$runs"
done
