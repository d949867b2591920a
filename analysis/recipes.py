"""The recipes of the runs behind figures and claims: the command, the hours it takes, the machine. No torch here.

Figures (`analysis/figures/catalogue.py`) and claims (`analysis/claims`) name the recipes of this table.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

RUNS = "assets/runs"
BASE, ADAPTER = "smollm2-135m", "assets/adapters/smollm2-135m-mars"
_THEN = " && "
_CORES, _MODELS = "two CPU cores", ("ablation-models",)
_BENCHED = (
    "--decoders sliding_window,sliding_window/b5,block_cached/c8,block_cached/c16,block_cached/c32,"
    "self_speculative/auto,self_speculative/linear,self_speculative/quadratic,jacobi --seed 33 --markdown --json"
)
_GPU_BENCHED = (
    "--device cuda --checkpoint assets/checkpoints/mars-b8 --decoders self_speculative/linear,"
    "self_speculative/quadratic,sliding_window@0.95,block_cached@0.95 --dtype bfloat16 --batch-sizes 1,4,8,16 "
    "--problems 4 --repeats 5 --max-new-tokens 192 --json"
)
_GPU_REAL_BENCH = (
    f"--device cuda --checkpoint {ADAPTER} --dtype bfloat16 --no-generate "
    "--questions assets/benchmarks/spec_bench/question.jsonl --max-new-tokens 64 --decoders self_speculative/linear,"
    "self_speculative/quadratic,sliding_window@0.5,relaxed@0.3/quadratic"
)
_REAL_BENCH = (
    f"--checkpoint {ADAPTER} --decoders sliding_window --batch-sizes 1,4 --problems 1 --max-new-tokens 64 --json"
)
_JUDGED = (
    "autoregressive,self_speculative/tree,self_speculative/lookup,prompt_lookup/k10,sliding_window@none,"
    "sliding_window@0.95,sliding_window@0.8,sliding_window@0.5,sliding_window@0.8/extra"
)
_SCORED = ",".join(
    f"sliding_window@{threshold}/{score}"
    for score, thresholds in (("margin", (0.95, 0.8, 0.5)), ("entropy", (0.2, 0.7, 1.5)))
    for threshold in thresholds
)
_THRESHOLDS = ",".join(f"sliding_window@{threshold}" for threshold in (0.99, 0.95, 0.9, 0.8, 0.7, 0.5))
_WHOLE = f"--checkpoint {ADAPTER} --baseline {BASE} --max-new-tokens 256"
_SHORT = f"{_WHOLE} --limit 100"
_BATCHES = {1: 32, 2: 32, 4: 64, 8: 64, 16: 64, 32: 128}
"""Batch sizes with the number of prompts."""
_LANES = (
    f"--checkpoint {ADAPTER} --baseline {BASE} --max-new-tokens 128 --timed --decoders "
    "autoregressive,self_speculative/auto,sliding_window@0.9,sliding_window@0.5"
)
_MERGED = f"--checkpoint assets/adapters/smollm2-135m-merged --baseline {BASE} --max-new-tokens 256"
_MERGED_ABLATIONS = ("merged-b4", "merged-b8", "merged-b4-no-sft", "merged-b8-no-sft")
_VERIFIABLE = "--task verifiable --dtype bfloat16 --max-new-tokens 128 --batch-size 32"
_LENIENT = ",".join(
    f"sliding_window@{threshold}{score}"
    for score, thresholds in (("", (0.5, 0.3, 0.15)), ("/margin", (0.3, 0.1, 0.03)), ("/entropy", (2, 3, 4)))
    for threshold in thresholds
)
_AGREE = f"python -m analysis agree --checkpoint {ADAPTER} --against {BASE} --journal runs/agree --max-new-tokens 128"
_WITH_GENERATE = f"{_AGREE} --dtype float32 --batch-sizes 8 --decoders self_speculative/lookup"
_WITH_AR = f"{_AGREE} --dtype bfloat16 --batch-sizes 1,8 --reference autoregressive"
_INSTRUCTIONS = "assets/benchmarks/verifiable/input_data.jsonl"
_SPEC_BENCH, _OWN = (f"assets/benchmarks/{name}/question.jsonl" for name in ("spec_bench", "own"))
_LLAMA_CPP = (
    f"--checkpoint {ADAPTER} --decoders self_speculative/auto --batch-sizes 1 --questions {_SPEC_BENCH} --limit 1 "
    f"--llama-cpp {BASE}"
)
_LOAD = "python -m tests.performance.arrivals --checkpoint"
_SPEC_LOAD = f"{_LOAD} {ADAPTER} --in-turn --prompts {_SPEC_BENCH} --tokens 128 --questions 80 --context 2048"
_IFEVAL_LOAD = f"{_LOAD} {ADAPTER} --in-turn --accuracy-budget 4 --instructions {_INSTRUCTIONS} --tokens 128"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A command of a shell, `{runs}` being the run store; about so many hours on this machine.

    `plan` is the name that its runs have as their plan; `after` are recipes that have to be there first.
    """

    name: str
    makes: str
    command: str
    hours: float
    machine: str = "two idle CPU cores"
    plan: str | None = None
    after: tuple[str, ...] = ()

    def line(self, runs: str = RUNS) -> str:
        """The command on this run store."""
        return self.command.format(runs=shlex.quote(runs))

    def made(self, command: str) -> bool:
        """Whether this is a command that a run of the recipe names: the run store and --json say nothing of it."""
        return _measured(command) in map(_measured, self.line().split(_THEN))


@cache
def _measured(command: str) -> tuple[str, ...]:
    """The words of a command that say what it measures; hundreds of runs name a few commands."""
    words = shlex.split(command.partition(" | ")[0])
    for option in ("--runs", "--save"):
        if option in words:
            place = words.index(option)
            words = words[:place] + words[place + 2 :]
    return tuple(word for word in words if word != "--json")


def _load(name: str, makes: str, hours: float, command: str) -> Recipe:
    return Recipe(name=name, makes=makes, command=f"{command} --save {{runs}}", hours=hours)


def _sweep(name: str, makes: str, hours: float, **rest: Any) -> Recipe:
    command = f"python -m analysis sweep analysis/plans/{name}.toml --runs {{runs}}"
    return Recipe(name=name, makes=makes, command=command, hours=hours, plan=name, **rest)


def _ifeval(name: str, makes: str, hours: float, options: str) -> Recipe:
    return Recipe(name=name, makes=makes, command=f"python -m analysis ifeval {options} --runs {{runs}}", hours=hours)


def _spec_bench(name: str, makes: str, hours: float, options: str) -> Recipe:
    command = f"python -m analysis spec-bench --checkpoint {ADAPTER} --baseline {BASE} {options} --runs {{runs}}"
    return Recipe(name=name, makes=makes, command=command, hours=hours)


_ALL = (
    _sweep("smoke", "a few settings of the shipped models", 0.05, machine=_CORES),
    Recipe(
        name="ablation-models",
        makes="the models that differ in one part of their training, in runs/ablations",
        command="bash analysis/plans/ablations.sh",
        hours=6,
        machine="one CPU core; several are faster",
    ),
    _sweep("ablations", "block sizes, the SFT loss, scores, block diffusion", 0.5, machine=_CORES, after=_MODELS),
    _sweep(
        "one-token",
        "one-token mode and AR on ten times as many problems",
        0.2,
        machine=_CORES,
        after=_MODELS,
    ),
    _sweep("scores", "the three scores on three times as many problems", 0.5, machine=_CORES),
    _sweep(
        "scores-fine",
        "the three scores close to a loss of 2 points, on ten times as many problems",
        0.8,
        machine=_CORES,
    ),
    _sweep("calibration", "how often a mask's proposal is right, by score", 0.1, machine=_CORES, after=_MODELS),
    _sweep("shipped", "every decoder on the shipped models, on the clock", 0.8),
    _sweep("block-cache", "the block cache against AR on six times as many problems, on the clock", 0.2),
    _sweep("speculative", "the paper's pairs of draft and target, on the clock", 0.1),
    Recipe(
        name="bench",
        makes="the decoders against generate of transformers, on the clock",
        command=f"python -m analysis bench {_BENCHED} | tail -n 1 > {{runs}}/bench-cpu.json",
        hours=0.3,
    ),
    Recipe(
        name="gpu-bench",
        makes="exact decoding, τ, a block cache, AR and generate on a GPU, on the clock",
        command=f"python -m analysis bench {_GPU_BENCHED} | tail -n 1 > {{runs}}/bench-h200.json",
        hours=0.03,
        machine="an NVIDIA H200",
    ),
    Recipe(
        name="gpu-bench-135m",
        makes="exact and relaxed decoding, τ and AR of the pretrained model with 16 rows on a GPU, on the clock",
        command=f"python -m analysis bench {_GPU_REAL_BENCH} --batch-sizes 16 --limit 2 --json "
        "| tail -n 1 > {runs}/bench-135m-h200.json",
        hours=0.02,
        machine="an NVIDIA H200",
    ),
    Recipe(
        name="gpu-relaxed",
        makes="relaxed verification of the pretrained model on all prompts, on a GPU",
        command=f"python -m analysis ifeval --device cuda --checkpoint {ADAPTER} --dtype bfloat16 --max-new-tokens 128 "
        "--batch-size 64 --decoders autoregressive,relaxed@none/quadratic,relaxed@0.5/quadratic,relaxed@0.3/quadratic,"
        "relaxed@0.2/quadratic,relaxed@0.1/quadratic,sliding_window@0.5 --runs {runs}",
        hours=0.02,
        machine="an NVIDIA H200",
    ),
    Recipe(
        name="gpu-load",
        makes="the pretrained model under load on a GPU, with both policies, answers judged as in IFEval",
        command=f"{_IFEVAL_LOAD} --questions 100 --ttft 0.5 --tpot 0.004 --queue-size 2 --lanes ar exact knob "
        "--rates 0.3 1.3 1.8 --no-bursts --minutes 3.6 --save {runs}",
        hours=0.1,
        machine="an NVIDIA H200",
    ),
    Recipe(
        name="gpu-load-full",
        makes="the same far beyond saturation, where the policies differ",
        command=f"{_IFEVAL_LOAD} --questions 100 --ttft 0.5 --tpot 0.004 --queue-size 2 --lanes ar exact knob "
        "--rates 1.8 2.5 --no-bursts --minutes 4.0 --save {runs}",
        hours=0.1,
        machine="an NVIDIA H200",
    ),
    Recipe(
        name="columns",
        makes="the milliseconds of passes of 1 to 32 columns of the pretrained model, and this machine's limits",
        command=f"python -m analysis columns --checkpoint {BASE} --output assets/lessons/pass-times.json",
        hours=0.1,
    ),
    _spec_bench(
        "real-spec-bench",
        "exact decoding of the pretrained model on all questions of Spec-Bench, on the clock",
        1,
        "--decoders autoregressive,self_speculative/auto,prompt_lookup/k10",
    ),
    _spec_bench(
        "real-kinds",
        "exact decoding of the pretrained model by kind of text, on the clock",
        0.4,
        "--limit 4 --max-new-tokens 256 --decoders "
        "autoregressive,prompt_lookup/k10,self_speculative/tree,self_speculative/lookup,self_speculative/auto",
    ),
    _spec_bench(
        "real-kinds-short",
        "masks alone on the same questions, in 96 tokens, on the clock",
        0.2,
        "--limit 4 --max-new-tokens 96 --decoders autoregressive,self_speculative/tree",
    ),
    Recipe(
        name="real-breakdown",
        makes="exact decoding of the pretrained model by position, entropy and number of masks",
        command=f"python -m analysis breakdown --checkpoint {ADAPTER} --limit 3 --output {{runs}}/breakdown-135m.json",
        hours=0.2,
        machine=_CORES,
    ),
    _spec_bench(
        "real-sample",
        "exact decoding and τ = 0.95 on one question of each category, in 96 tokens, on the clock",
        0.1,
        "--decoders autoregressive,self_speculative/tree,self_speculative/auto,sliding_window@0.95 "
        "--limit 1 --max-new-tokens 96",
    ),
    _spec_bench(
        "real-eight-rows",
        "exact decoding of eight questions at once, on the clock",
        0.1,
        "--batch 8 --limit 4 --max-new-tokens 256 --decoders autoregressive,self_speculative/auto",
    ),
    _spec_bench(
        "real-eight-rows-more",
        "exact decoding of eight questions at once, on up to 24 of each category, on the clock",
        0.2,
        "--batch 8 --limit 24 --max-new-tokens 256 --decoders autoregressive,self_speculative/auto",
    ),
    _ifeval(
        "real-one-token",
        "AR and one-token mode of the pretrained model on all prompts",
        0.2,
        f"{_WHOLE} --decoders autoregressive,sliding_window@none",
    ),
    _ifeval(
        "real-accuracy",
        "the pretrained model under some τ, with the last mask's proposal, and exactly",
        0.5,
        f"{_SHORT} --decoders {_JUDGED}",
    ),
    _ifeval(
        "real-thresholds",
        "one-token mode and each τ of the pretrained model on all prompts",
        0.8,
        f"{_WHOLE} --batch-size 32 --decoders sliding_window@none,{_THRESHOLDS}",
    ),
    _ifeval(
        "real-extra",
        "τ = 0.8 with and without the last mask's proposal on all prompts",
        0.6,
        f"{_WHOLE} --threads 1 --decoders sliding_window@0.8,sliding_window@0.8/extra",
    ),
    _ifeval(
        "real-scores",
        "the pretrained model under some τ by margin and by entropy",
        0.5,
        f"{_SHORT} --decoders {_SCORED}",
    ),
    _ifeval(
        "real-scores-lenient",
        "lenient τ by each score on prompts of another benchmark, where they lose enough to be compared",
        0.3,
        f"--checkpoint {ADAPTER} {_VERIFIABLE} --limit 256 --decoders sliding_window@none,{_LENIENT}",
    ),
    _ifeval(
        "real-merged",
        "one-token mode of the merged adapter and the base on all prompts",
        0.1,
        f"{_MERGED} --batch-size 32 --decoders autoregressive,sliding_window@none",
    ),
    _ifeval(
        "real-verifiable",
        "one-token mode of the merged adapter and the base on 2,000 other prompts",
        0.5,
        f"--checkpoint assets/adapters/smollm2-135m-merged --baseline {BASE} {_VERIFIABLE} "
        "--decoders autoregressive,sliding_window@none",
    ),
    _ifeval(
        "real-merged-accuracy",
        "the merged adapter under each τ and exactly on all prompts",
        0.8,
        f"{_MERGED} --batch-size 32 --decoders self_speculative/lookup,{_THRESHOLDS},self_speculative/tree",
    ),
    _ifeval(
        "real-merged-frontier",
        "the merged adapter under each τ and exactly, one prompt at a time, on the clock",
        0.2,
        f"{_MERGED} --timed --batch-size 1 --limit 24 --decoders autoregressive,{_THRESHOLDS},self_speculative/auto",
    ),
    Recipe(
        name="real-ablation-models",
        makes="merged adapters of two block sizes, with and without the SFT loss, and plain SFT (runs/real-ablations)",
        command="OMP_NUM_THREADS=1 JOBS=2 bash analysis/plans/real-ablations.sh",
        hours=0.6,
    ),
    Recipe(
        name="real-ablations",
        makes="one-token mode of these merged adapters, and the AR model of plain SFT, on all prompts",
        command=_THEN.join(
            f"python -m analysis ifeval --checkpoint runs/real-ablations/{name} --max-new-tokens 256 --batch-size 32 "
            f"--decoders {decoder} --runs {{runs}}"
            for name, decoder in (
                *((merged, "sliding_window@none") for merged in _MERGED_ABLATIONS),
                ("sft-double", "autoregressive"),
            )
        ),
        hours=0.5,
        after=("real-ablation-models",),
    ),
    _ifeval(
        "real-frontier",
        "the pretrained model under each τ and exactly, one prompt at a time, on the clock",
        0.7,
        f"{_WHOLE} --timed --batch-size 1 --limit 48 --decoders autoregressive,{_THRESHOLDS},self_speculative/auto",
    ),
    Recipe(
        name="real-batches",
        makes="AR, exact decoding and two τ of the pretrained model by batch size, on the clock",
        command=_THEN.join(
            f"python -m analysis ifeval {_LANES} --batch-size {size} --limit {limit} --runs {{runs}}"
            for size, limit in _BATCHES.items()
        ),
        hours=0.4,
    ),
    _ifeval(
        "real-caches",
        "block caches against a cursor per row on the pretrained model, on the clock",
        0.2,
        f"--checkpoint {ADAPTER} --baseline {BASE} --timed --batch-size 4 --limit 64 --max-new-tokens 128 --decoders "
        "autoregressive,sliding_window@0.95,block_cached@0.95/c8,block_cached@0.95/c16,block_cached@0.95/c32",
    ),
    _ifeval(
        "real-jacobi",
        "Jacobi decoding of the pretrained model",
        0.2,
        f"--checkpoint {BASE} --limit 100 --max-new-tokens 256 --decoders autoregressive,jacobi/k4",
    ),
    Recipe(
        name="real-bench",
        makes="the pretrained model's AR against generate of transformers, on the clock",
        command=f"python -m analysis bench {_REAL_BENCH} | tail -n 1 > {{runs}}/bench-135m.json",
        hours=0.1,
    ),
    Recipe(
        name="real-llama-cpp",
        makes="the pretrained model's decoders, generate and llama.cpp in turns; printed (docs/log.md)",
        command=f"python -m analysis bench {_LLAMA_CPP} --max-new-tokens 256",
        hours=0.4,
    ),
    Recipe(
        name="real-no-amx",
        makes="the same in 64 tokens with AMX forbidden to oneDNN and our kernels; printed (docs/log.md)",
        command=f"ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 python -m analysis bench {_LLAMA_CPP} --max-new-tokens 64",
        hours=0.2,
    ),
    Recipe(
        name="real-int8",
        makes="the same with products in 8 bits, on a CPU with AVX512-VNNI or AMX; printed (docs/log.md)",
        command=f"python -m analysis bench {_LLAMA_CPP} --max-new-tokens 256 --dtype int8 --no-generate",
        hours=0.2,
    ),
    Recipe(
        name="real-int8-accuracy",
        makes="IFEval with the base in 8 bits, all 541 prompts",
        command=f"python -m analysis ifeval --checkpoint {BASE} --dtype int8 --max-new-tokens 256 --batch-size 32 "
        "--decoders autoregressive --runs {runs}",
        hours=0.1,
        machine=_CORES,
    ),
    Recipe(
        name="real-agree",
        makes="exact decoding against generate of the untouched base on Spec-Bench, token by token; printed",
        command=f"{_WITH_GENERATE} --questions {_SPEC_BENCH}",
        hours=1.5,
        machine=_CORES,
    ),
    Recipe(
        name="real-agree-own",
        makes="the same on 100 prompts of our own; printed",
        command=f"{_WITH_GENERATE} --questions {_OWN}",
        hours=0.2,
        machine=_CORES,
    ),
    Recipe(
        name="real-agree-bfloat16",
        makes="exact decoding in bfloat16 against our own AR on Spec-Bench, alone and eight rows at once; printed",
        command=f"{_WITH_AR} --decoders self_speculative/lookup --questions {_SPEC_BENCH}",
        hours=0.5,
        machine=_CORES,
    ),
    Recipe(
        name="real-agree-bfloat16-own",
        makes="the same for AR in company and three layouts on 100 prompts of our own; printed",
        command=f"{_WITH_AR} --decoders autoregressive,self_speculative/lookup,self_speculative/tree,"
        f"self_speculative/auto --questions {_OWN}",
        hours=0.3,
        machine=_CORES,
    ),
    _load(
        "real-load-in-turn",
        "requests that arrive at random, answered by AR, copies, lookup and the policy, passes by turns",
        0.5,
        f"{_SPEC_LOAD} --ttft 2 --queue-size 2 --lanes ar copy lookup exact --rates 0.3 0.6 0.9 1.1 1.3 --no-bursts "
        "--minutes 26",
    ),
    _load(
        "real-load-beyond",
        "the same at saturation and beyond, without lookup, on four times as many requests",
        0.5,
        f"{_SPEC_LOAD} --ttft 2 --queue-size 2 --lanes ar copy exact --rates 1.1 1.3 --no-bursts --minutes 28",
    ),
    _load(
        "real-load-40ms",
        "the same at five loads where 40 ms a token are in time",
        0.7,
        f"{_SPEC_LOAD} --ttft 2 --tpot 0.04 --queue-size 2 --lanes ar copy lookup exact --rates 0.3 0.6 0.9 1.1 1.3 "
        "--no-bursts --minutes 38",
    ),
    _load(
        "real-load-knob",
        "the pretrained model far beyond saturation, with the policy that lowers τ, answers judged as in IFEval",
        0.2,
        f"{_IFEVAL_LOAD} --questions 100 --ttft 2 --tpot 0.06 --queue-size 2 --lanes ar exact knob --rates 1.3 1.6 "
        "--no-bursts --minutes 13",
    ),
    _load(
        "real-load-few",
        "the pretrained model with three places, where a column is worth more, against the best fixed layout",
        0.7,
        f"{_IFEVAL_LOAD} --questions 200 --places 3 --ttft 2 --tpot 0.025 --queue-size 2 --lanes ar lookup exact knob "
        "--rates 0.3 0.9 1.3 1.8 --no-bursts --minutes 42",
    ),
    _load(
        "real-load-two",
        "the policy that lowers τ with two places, beyond saturation",
        0.6,
        f"{_IFEVAL_LOAD} --questions 100 --places 2 --ttft 2 --tpot 0.025 --queue-size 2 --lanes ar exact knob "
        "--rates 1.3 1.8 --no-bursts --minutes 36",
    ),
    _load(
        "real-load-two-accuracy",
        "what that policy changes in accuracy, on more prompts",
        0.3,
        f"{_IFEVAL_LOAD} --questions 280 --seed 2 --places 2 --ttft 2 --tpot 0.025 --queue-size 2 --lanes ar knob "
        "--rates 1.3 --no-bursts --turns 1 --minutes 14",
    ),
    _load(
        "real-load",
        "requests that arrive at random at a server of the pretrained model (docs/serving.md)",
        0.5,
        f"{_LOAD} {ADAPTER} --prompts {_SPEC_BENCH} --tokens 256 --questions 48 --context 2048 --ttft 2 --queue-size "
        "2 --lanes ar copy exact --rates 0.3 0.6 0.9 1.1 1.3 --no-bursts --turns 2 --minutes 30",
    ),
    _load(
        "load",
        "the same of the shipped model by turns, with the policy that lowers τ under load",
        0.2,
        f"{_LOAD} assets/checkpoints/mars-b8 --in-turn --accuracy-budget 5 --ttft 0.5 --tpot 0.02 --questions 400 "
        "--queue-size 3 --lanes ar narrow exact knob --rates 0.3 0.9 1.1 1.3 1.6 --no-bursts --minutes 10",
    ),
    _load(
        "load-beyond",
        "the same far beyond saturation, both policies and AR only, on many more requests",
        0.2,
        f"{_LOAD} assets/checkpoints/mars-b8 --in-turn --accuracy-budget 5 --ttft 0.5 --tpot 0.02 --questions 1600 "
        "--queue-size 3 --lanes ar exact knob --rates 1.6 2 --no-bursts --minutes 12",
    ),
    Recipe(
        name="gpu",
        makes="all that waits for a GPU (docs/gpu.md)",
        command="python -m analysis gpu --out runs/gpu",
        hours=1.5,
        machine="a GPU",
    ),
)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def in_order(names: Iterable[str]) -> list[Recipe]:
    """These recipes and those that have to be there first, each once, in the order of the table."""
    wanted: set[str] = set()
    ask = list(names)
    while ask:
        name = ask.pop()
        if name not in wanted:
            wanted.add(name)
            ask += RECIPES[name].after
    return [recipe for recipe in _ALL if recipe.name in wanted]
