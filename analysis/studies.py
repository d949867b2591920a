"""The studies: what is measured, by which command, and the claims and figures that rest on it. No torch here.

`reproduce` runs their commands, the runs of a study name it as their plan, claims and figures ask which studies they
rest on. What a figure asks is in `analysis/figures/`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path

RUNS = "assets/runs"
BASE, ADAPTER, MERGED = "smollm2-135m", "assets/adapters/smollm2-135m-gated", "assets/adapters/smollm2-135m-merged"
_WITH_MERGED = "2f9e18d"
"""A commit that has its weights."""
_WITH_GATED = "4ebfdf5"
"""The last commit that has the gated `ADAPTER`, targets that continue drafts by masks, and block diffusion."""
_THEN = " && "
_CORES, _IDLE, _GPU = "two CPU cores", "two idle CPU cores", "an NVIDIA H200"
_THRESHOLDS = ",".join(f"sliding_window@{threshold}" for threshold in (0.99, 0.95, 0.9, 0.8, 0.7, 0.5))
_FITTED = ",".join(f"sliding_window@{threshold}/auto" for threshold in (0.95, 0.9, 0.8))
"""With as many masks as pay, as on the page."""
_LENIENT = ",".join(
    f"sliding_window@{threshold}{score}"
    for score, thresholds in (("", (0.5, 0.3, 0.15)), ("/margin", (0.3, 0.1, 0.03)), ("/entropy", (2, 3, 4)))
    for threshold in thresholds
)
PAIR, PAIR_AR = "assets/adapters/smollm2-135m-mars", "assets/adapters/smollm2-135m-sft"
_OWN = "--task chat --questions assets/benchmarks/own/question.jsonl --limit 9 --max-new-tokens 96"
_VERIFIABLE = "--task verifiable --dtype bfloat16 --max-new-tokens 128 --batch-size 32"
_SPEC_BENCH = "assets/benchmarks/spec_bench/question.jsonl"
_AGREE = f"agree --checkpoint {ADAPTER} --against {BASE} --max-new-tokens 128"


@dataclass(frozen=True, slots=True)
class Study:
    """A command of a shell, `{runs}` being the run store; about so many hours on this machine.

    `claims` and `figures` rest on its runs; `after` are studies that have to be there first.
    """

    name: str
    makes: str
    command: str
    hours: float
    _: KW_ONLY
    machine: str = _IDLE
    claims: tuple[int, ...] = ()
    figures: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    earlier: bool = False

    def line(self, runs: str = RUNS) -> str:
        """The command on this run store; what is `earlier`, or runs the gated adapter, does so where it was there."""
        if not self.earlier and f"--checkpoint {ADAPTER} " not in self.command:
            return self.command.format(runs=shlex.quote(runs))
        there = f"runs/{_WITH_GATED}"
        made = f"{{ [ -d {there} ] || git worktree add {there} {_WITH_GATED}; }}"
        return _THEN.join((made, f"cd {there}", self.command.format(runs=shlex.quote(str(Path(runs).resolve())))))

    def made(self, command: str) -> bool:
        """Whether this is a command that a run of the study names: the run store and --json say nothing of it."""
        return _measured(command) in map(_measured, self.line().split(_THEN))


def _kept(file: str) -> str:
    """The end of a command that keeps its last line in the run store, once there is one."""
    place = f"{{runs}}/{file}"
    return f"| tail -n 1 > {place}.part && test -s {place}.part && mv {place}.part {place}"


@cache
def _measured(command: str) -> tuple[str, ...]:
    """The words of a command that say what it measures; hundreds of runs name a few commands."""
    words = shlex.split(command.partition(" | ")[0])
    for option in ("--runs", "--save"):
        if option in words:
            place = words.index(option)
            words = words[:place] + words[place + 2 :]
    return tuple(word for word in words if word != "--json")


def _sweep(name: str) -> str:
    return f"python -m analysis sweep analysis/plans/{name}.toml --runs {{runs}}"


def _ifeval(options: str, checkpoint: str = ADAPTER, baseline: str = f" --baseline {BASE}") -> str:
    return f"python -m analysis ifeval --checkpoint {checkpoint}{baseline} {options} --runs {{runs}}"


def _spec_bench(options: str, checkpoint: str = ADAPTER, baseline: str = BASE) -> str:
    return f"python -m analysis spec-bench --checkpoint {checkpoint} --baseline {baseline} {options} --runs {{runs}}"


_ALL = (
    Study(
        "pair",
        "the pair of the page on 1,200 problems of six families: AR, each τ; and on the clock, one at a time",
        _sweep("pair"),
        0.5,
        claims=(1, 3, 9),
        figures=("frontier", "equal_accuracy"),
    ),
    Study(
        "pair-ifeval",
        "the pair of the page on all prompts: AR, one-token mode, two τ",
        _ifeval(
            "--dtype bfloat16 --max-new-tokens 256 --batch-size 48 --decoders "
            "autoregressive,sliding_window@none,sliding_window@0.95,sliding_window@0.8",
            PAIR,
            f" --baseline {PAIR_AR}",
        ),
        0.4,
        claims=(1,),
        figures=("frontier",),
    ),
    Study(
        "pair-verifiable",
        "the pair of the page on 2,000 other prompts whose answers a program can check: AR and one-token mode",
        _ifeval(f"{_VERIFIABLE} --decoders autoregressive,sliding_window@none", PAIR, f" --baseline {PAIR_AR}"),
        0.2,
        claims=(1,),
    ),
    Study(
        "pair-chat",
        "the pair of the page on 81 ordinary questions, on the clock, and how far one-token mode agrees",
        _spec_bench(
            f"{_OWN} --dtype bfloat16 --decoders autoregressive,sliding_window@none,{_THRESHOLDS},{_FITTED},"
            "self_speculative/tree,self_speculative/lookup",
            PAIR,
            PAIR_AR,
        ),
        0.3,
        claims=(9,),
        figures=("frontier",),
    ),
    Study(
        "pair-kinds",
        "the pair of the page by kind of text: one-token mode, τ = 0.95, exact decoding by masks alone, on the clock",
        _spec_bench(
            "--limit 4 --max-new-tokens 256 --dtype bfloat16 "
            "--decoders autoregressive,sliding_window@none,sliding_window@0.95,self_speculative/tree",
            PAIR,
            PAIR_AR,
        ),
        0.1,
        claims=(9,),
        figures=("frontier",),
    ),
    Study("smoke", "a few settings of the shipped models", _sweep("smoke"), 0.05, machine=_CORES, claims=(9,)),
    Study(
        "ablation-models",
        "the models that differ in one part of their training, in runs/ablations",
        "bash analysis/plans/ablations.sh",
        6,
        machine="one CPU core; several are faster",
    ),
    Study(
        "ablations",
        f"block sizes, the SFT loss, thresholds; with commit {_WITH_GATED} block diffusion too",
        _sweep("ablations"),
        0.4,
        machine=_CORES,
        claims=(1, 2, 3, 6, 8, 9, 11),
        figures=("frontier",),
        after=("ablation-models",),
    ),
    Study(
        "one-token",
        "one-token mode and AR on ten times as many problems",
        _sweep("one-token"),
        0.2,
        machine=_CORES,
        claims=(1,),
        after=("ablation-models",),
    ),
    Study(
        "scores",
        "thresholds of the shipped model on three times as many problems",
        _sweep("scores"),
        0.2,
        machine=_CORES,
        claims=(3,),
        figures=("frontier",),
    ),
    Study(
        "scores-fine",
        "the three scores close to a loss of 2 points, on ten times as many problems",
        _sweep("scores-fine"),
        0.8,
        machine=_CORES,
        claims=(1, 5),
    ),
    Study(
        "calibration",
        "exact decoding by masks of models of three block sizes",
        _sweep("calibration"),
        0.1,
        machine=_CORES,
        claims=(9,),
        after=("ablation-models",),
    ),
    Study(
        "shipped",
        "every decoder on the shipped models, on the clock",
        _sweep("shipped"),
        0.8,
        claims=(4, 6, 9, 10),
        figures=("frontier", "equal_accuracy"),
    ),
    Study(
        "block-cache",
        "the block cache against AR on six times as many problems, on the clock",
        _sweep("block-cache"),
        0.2,
        claims=(4,),
    ),
    Study(
        "speculative",
        "the paper's pairs of draft and target, on the clock",
        "mkdir -p runs && ln -sfn ../../ablations runs/ablations && " + _sweep("speculative"),
        0.1,
        claims=(7,),
        after=("ablation-models",),
        earlier=True,
    ),
    Study(
        "bench",
        "the decoders against generate of transformers, on the clock",
        "python -m analysis bench --decoders sliding_window,sliding_window/b5,block_cached/c8,block_cached/c16,"
        "block_cached/c32,self_speculative/auto,self_speculative/linear,self_speculative/quadratic,jacobi --seed 33 "
        f"--markdown --json {_kept('bench-cpu.json')}",
        0.3,
        claims=(12,),
    ),
    Study(
        "columns",
        "the milliseconds of passes of 1 to 32 columns of the pretrained model, and this machine's limits",
        f"python -m analysis columns --checkpoint {BASE} --output assets/lessons/pass-times.json",
        0.1,
    ),
    Study(
        "real-spec-bench",
        "exact decoding of the pretrained model on all questions of Spec-Bench, on the clock",
        _spec_bench("--decoders autoregressive,self_speculative/auto,prompt_lookup/k10"),
        1,
        claims=(9,),
    ),
    Study(
        "real-kinds",
        "exact decoding of the pretrained model by kind of text, on the clock",
        _spec_bench(
            "--limit 4 --max-new-tokens 256 --decoders "
            "autoregressive,prompt_lookup/k10,self_speculative/tree,self_speculative/lookup,self_speculative/auto"
        ),
        0.4,
        claims=(7, 9),
    ),
    Study(
        "real-eight-rows",
        "exact decoding of eight questions at once, on the clock",
        _spec_bench("--batch 8 --limit 4 --max-new-tokens 256 --decoders autoregressive,self_speculative/auto"),
        0.1,
        claims=(9,),
    ),
    Study(
        "real-eight-rows-more",
        "exact decoding of eight questions at once, on up to 24 of each category, on the clock",
        _spec_bench("--batch 8 --limit 24 --max-new-tokens 256 --decoders autoregressive,self_speculative/auto"),
        0.2,
        claims=(9,),
    ),
    Study(
        "real-one-token",
        "AR and one-token mode of the pretrained model on all prompts",
        _ifeval("--max-new-tokens 256 --decoders autoregressive,sliding_window@none"),
        0.2,
        claims=(1,),
    ),
    Study(
        "real-accuracy",
        "the pretrained model under some τ and exactly",
        _ifeval(
            "--max-new-tokens 256 --limit 100 --decoders autoregressive,self_speculative/tree,self_speculative/lookup,"
            "prompt_lookup/k10,sliding_window@none,sliding_window@0.95,sliding_window@0.8,sliding_window@0.5,"
            "sliding_window@0.8/extra"
        ),
        0.5,
        claims=(6, 9),
    ),
    Study(
        "real-thresholds",
        "one-token mode and each τ of the pretrained model on all prompts",
        _ifeval(f"--max-new-tokens 256 --batch-size 32 --decoders sliding_window@none,{_THRESHOLDS}"),
        0.8,
        claims=(3,),
        figures=("frontier",),
    ),
    Study(
        "real-extra",
        "τ = 0.8 with and without the last mask's proposal on all prompts",
        _ifeval("--max-new-tokens 256 --threads 1 --decoders sliding_window@0.8,sliding_window@0.8/extra"),
        0.6,
        claims=(11,),
    ),
    Study(
        "real-scores-lenient",
        "lenient τ by each score on prompts of another benchmark, where they lose enough to be compared",
        _ifeval(f"{_VERIFIABLE} --limit 256 --decoders sliding_window@none,{_LENIENT}", baseline=""),
        0.3,
        claims=(5,),
    ),
    Study(
        "merged-adapter",
        "the merged adapter of 2026-11-24 and the conversations that adapters learnt from, out of this repository's "
        "history: the pair took their place",
        f"git restore --source={_WITH_MERGED} {MERGED} {ADAPTER}/conversations.jsonl {ADAPTER}/conversations-2.jsonl",
        0.01,
        machine=_CORES,
    ),
    Study(
        "real-merged",
        "one-token mode of the merged adapter and the base on all prompts",
        _ifeval("--max-new-tokens 256 --batch-size 32 --decoders autoregressive,sliding_window@none", MERGED),
        0.1,
        claims=(1, 3, 9),
        figures=("frontier",),
        after=("merged-adapter",),
    ),
    Study(
        "real-verifiable",
        "one-token mode of the merged adapter and the base on 2,000 other prompts",
        _ifeval(f"{_VERIFIABLE} --decoders autoregressive,sliding_window@none", MERGED),
        0.5,
        claims=(1,),
        after=("merged-adapter",),
    ),
    Study(
        "real-merged-accuracy",
        "the merged adapter under each τ and exactly on all prompts",
        _ifeval(
            "--max-new-tokens 256 --batch-size 32 --decoders "
            f"self_speculative/lookup,{_THRESHOLDS},self_speculative/tree",
            MERGED,
        ),
        0.8,
        claims=(3, 9),
        figures=("frontier",),
        after=("merged-adapter",),
    ),
    Study(
        "real-merged-frontier",
        "the merged adapter under each τ and exactly, one prompt at a time, on the clock",
        _ifeval(
            "--max-new-tokens 256 --timed --batch-size 1 --limit 24 --decoders "
            f"autoregressive,{_THRESHOLDS},self_speculative/auto",
            MERGED,
        ),
        0.2,
        figures=("frontier",),
        after=("merged-adapter",),
    ),
    Study(
        "real-ablation-models",
        "merged adapters of two block sizes, with and without the SFT loss, and plain SFT (runs/real-ablations)",
        "OMP_NUM_THREADS=1 JOBS=2 bash analysis/plans/real-ablations.sh",
        0.6,
        after=("merged-adapter",),
    ),
    Study(
        "real-ablations",
        "one-token mode of these merged adapters, and the AR model of plain SFT, on all prompts",
        _THEN.join(
            _ifeval(
                f"--max-new-tokens 256 --batch-size 32 --decoders {decoder}",
                f"runs/real-ablations/{model}",
                baseline="",
            )
            for decoder, models in (
                ("sliding_window@none", ("merged-b4", "merged-b8", "merged-b4-no-sft", "merged-b8-no-sft")),
                ("autoregressive", ("sft-double",)),
            )
            for model in models
        ),
        0.5,
        claims=(1, 2),
        after=("real-ablation-models",),
    ),
    Study(
        "real-batches",
        "AR, exact decoding and two τ of the pretrained model by batch size, on the clock",
        _THEN.join(
            _ifeval(
                "--max-new-tokens 128 --timed --decoders autoregressive,self_speculative/auto,sliding_window@0.9,"
                f"sliding_window@0.5 --batch-size {size} --limit {limit}"
            )
            for size, limit in {1: 32, 2: 32, 4: 64, 8: 64, 16: 64, 32: 128}.items()
        ),
        0.4,
        figures=("frontier",),
    ),
    Study(
        "real-caches",
        "block caches against a cursor per row on the pretrained model, on the clock",
        _ifeval(
            "--timed --batch-size 4 --limit 64 --max-new-tokens 128 --decoders "
            "autoregressive,sliding_window@0.95,block_cached@0.95/c8,block_cached@0.95/c16,block_cached@0.95/c32"
        ),
        0.2,
        claims=(4, 10),
    ),
    Study(
        "real-jacobi",
        "Jacobi decoding of the pretrained model",
        _ifeval("--limit 100 --max-new-tokens 256 --decoders autoregressive,jacobi/k4", BASE, baseline=""),
        0.2,
        claims=(6,),
    ),
    Study(
        "real-bench",
        "the pretrained model's AR against generate of transformers, on the clock",
        f"python -m analysis bench --checkpoint {PAIR} --decoders sliding_window --batch-sizes 1,4 "
        f"--problems 1 --max-new-tokens 64 --json {_kept('bench-135m.json')}",
        0.1,
        claims=(12,),
    ),
    Study(
        "real-agree",
        "exact decoding against generate of the untouched base on Spec-Bench, token by token; printed",
        f"python -m analysis {_AGREE} --dtype float32 --batch-sizes 8 --decoders self_speculative/lookup "
        f"--questions {_SPEC_BENCH}",
        1.5,
        machine=_CORES,
    ),
    Study(
        "real-agree-bfloat16",
        "exact decoding in bfloat16 against our own AR on Spec-Bench, alone and eight rows at once; printed",
        f"python -m analysis {_AGREE} --dtype bfloat16 --batch-sizes 1,8 --reference autoregressive "
        f"--decoders self_speculative/lookup --questions {_SPEC_BENCH}",
        0.5,
        machine=_CORES,
    ),
    Study(
        "gpu-bench",
        "exact decoding, τ, a block cache, AR and generate on a GPU, on the clock",
        "python -m analysis bench --device cuda --checkpoint assets/checkpoints/mars-b8 --decoders "
        "self_speculative/linear,self_speculative/quadratic,sliding_window@0.95,block_cached@0.95 --dtype bfloat16 "
        "--batch-sizes 1,4,8,16 --problems 4 --repeats 5 --max-new-tokens 192 --json "
        f"{_kept('bench-h200.json')}",
        0.03,
        machine=_GPU,
        claims=(12,),
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


def behind_claim(number: int) -> tuple[str, ...]:
    """The studies that a claim rests on."""
    return tuple(study.name for study in _ALL if number in study.claims)


def behind_figure(name: str) -> tuple[str, ...]:
    """The studies that a figure rests on; ValueError if there are none."""
    if found := tuple(study.name for study in _ALL if name in study.figures):
        return found
    raise ValueError(f"no study is behind the figure {name}: name it in the `figures` of one, in analysis/studies.py")


def study_of(command: str) -> str | None:
    """The study that this command measures, if it is one of the table's."""
    return next((study.name for study in _ALL if study.made(command)), None)


def in_order(names: Iterable[str]) -> list[Study]:
    """These studies and those that have to be there first, each once, in the order of the table."""
    wanted: set[str] = set()
    ask = list(names)
    while ask:
        name = ask.pop()
        if name not in wanted:
            wanted.add(name)
            ask += STUDIES[name].after
    return [study for study in _ALL if study.name in wanted]
