"""Claims on fabricated runs: each verdict of each claim, the models chosen by what they are, and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.claims import CLAIMS, Evidence, Finding, Verdict, judge, read_evidence, to_json, to_markdown
from analysis.claims.book import Book, Run
from analysis.claims.finding import number, points
from analysis.runs import read_runs, write_run
from analysis.stats.intervals import Interval

ROOT = Path(__file__).parents[3]
NOWHERE = ROOT / "tests" / "data" / "nowhere"
Pair = tuple[dict[str, Any], pd.DataFrame]
N = 300
"""Problems of each of two families: enough that a difference of 0 is surely less than a point."""


@pytest.fixture
def make(fabricate: Any) -> Callable[..., Pair]:
    """`make(model, decoder, …)`: a run on N problems of each family."""
    return lambda *args, **options: fabricate.run(*args, **{"problems": N, **options})


@pytest.fixture
def find(fabricate: Any) -> Callable[..., Finding]:
    """`find(claim, runs)`: what is found of the claim with this number."""

    def found(claim: int, runs: list[Pair]) -> Finding:
        evidence = read_evidence(fabricate.store(runs), NOWHERE)
        return next(each for each in CLAIMS if each.number == claim).find(evidence)

    return found


def ar(fabricate: Any, examples: int = 900, name: str = "plain") -> dict[str, Any]:
    return {**fabricate.model(name, "sft", None, None), "examples": examples}


def mars(fabricate: Any, size: int, *, loss: bool = True, examples: int = 100, stage: str = "mars") -> dict[str, Any]:
    name = f"{size}{loss}{examples}{stage}"
    return {**fabricate.model(name, stage, size, loss if stage == "mars" else None), "examples": examples}


def with_text(pair: Pair, text: str) -> Pair:
    return pair[0], pair[1].assign(text=text)


def test_every_claim_is_there_once_and_missing_without_runs(fabricate: Any) -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 13))
    assert [claim.number for claim in CLAIMS if claim.ours] == [9, 10, 11, 12]
    found = judge(read_evidence(fabricate.store([]), NOWHERE))
    assert {finding.verdict for finding in found.values()} == {Verdict.MISSING}
    assert all(finding.measured[0].startswith("needs ") for finding in found.values())


# Claim 1


def one_token(fabricate: Any, make: Any, accuracy: float, double: float | None = 0.9) -> list[Pair]:
    runs = [make(ar(fabricate)), make(mars(fabricate, 4), accuracy=accuracy)]
    return runs if double is None else [*runs, make(ar(fabricate, 200, "double"), accuracy=double)]


@pytest.mark.parametrize(
    ("accuracy", "double", "verdict"),
    [
        (0.9, 0.9, Verdict.HOLDS),
        (0.95, 0.9, Verdict.HOLDS),
        (0.88, 0.9, Verdict.FAILS),
        (0.9, 0.92, Verdict.FAILS),
        (0.9, None, Verdict.MISSING),
        (0.8, None, Verdict.FAILS),
    ],
)
def test_one_token_mode(
    find: Any, fabricate: Any, make: Any, accuracy: float, double: float | None, verdict: Verdict
) -> None:
    finding = find(1, one_token(fabricate, make, accuracy, double))
    assert finding.verdict is verdict
    assert len(finding.tables[0].rows) == (1 if double is None else 2)


def test_one_token_mode_on_few_problems(find: Any, fabricate: Any) -> None:
    models = (ar(fabricate), ar(fabricate, 200, "double"), mars(fabricate, 4))
    finding = find(1, [fabricate.run(model) for model in models])
    assert finding.verdict is Verdict.OPEN
    assert "0.0 [−" in finding.measured[0]


def test_the_start_is_the_ar_model_of_the_same_size_that_has_most_runs(fabricate: Any, make: Any) -> None:
    small = {**ar(fabricate, 900, "small"), "parameters": 400}
    runs = [make(small), make(small, batch_size=1), *one_token(fabricate, make, 0.9)]
    book = Book(fabricate.store(runs))
    model = book.models(lambda model: model.stage == "mars")[0]
    start, double = book.start_of(model), book.compute_matched(model)
    assert start is not None
    assert double is not None
    assert (start.name, double.name) == ("plain", "double")
    alone = Book(fabricate.store([make(ar(fabricate, 200)), make(mars(fabricate, 4))]))
    assert alone.start_of(model) is not None, "an only AR model is the start, whatever it has seen"
    assert alone.compute_matched(model) is None


def test_models_of_one_name_are_told_apart(fabricate: Any, make: Any) -> None:
    same = [{**mars(fabricate, 8, examples=seen), "name": "mars-b8"} for seen in (48_000, 210_000)]
    book = Book(fabricate.store([make(model) for model in same]))
    names = [book.name(model) for model in book.models(lambda _: True)]
    assert names == ["mars-b8 (210,000 conversations)", "mars-b8 (48,000 conversations)"]


# Claim 2


@pytest.mark.parametrize(
    ("kept", "degraded", "verdict"),
    [(0.9, 0.8, Verdict.HOLDS), (0.8, 0.9, Verdict.FAILS), (0.9, 0.9, Verdict.FAILS), (0.89, 0.885, Verdict.OPEN)],
)
def test_sft_loss(find: Any, fabricate: Any, make: Any, kept: float, degraded: float, verdict: Verdict) -> None:
    """Accuracy at the largest block; 0.9 at the smallest."""
    runs = [
        make(mars(fabricate, size, loss=loss), accuracy=0.9 if size == 4 else at, problems=200)
        for loss, at in ((True, kept), (False, degraded))
        for size in (4, 16)
    ]
    finding = find(2, runs)
    assert finding.verdict is verdict
    assert [row[0] for row in finding.tables[0].rows] == ["4", "16"]
    assert find(2, runs[:3]).verdict is Verdict.MISSING


def test_sft_loss_compares_models_that_saw_equally_much(find: Any, fabricate: Any, make: Any) -> None:
    shipped = make(mars(fabricate, 16, examples=900), accuracy=0.99)
    runs = [make(mars(fabricate, size, loss=loss)) for loss in (True, False) for size in (4, 8, 16)]
    finding = find(2, [shipped, *runs])
    assert {run.model.examples for run in finding.runs} == {100}


# Claims 3, 5 and 11


def swept(fabricate: Any, make: Any, at: dict[float | None, tuple[float, float]], **settings: Any) -> list[Pair]:
    """Runs of sliding_window by threshold, with accuracy and tokens per forward."""
    model = mars(fabricate, 8)
    return [
        make(model, "sliding_window", threshold=threshold, accuracy=accuracy, gain=gain, **settings)
        for threshold, (accuracy, gain) in at.items()
    ]


@pytest.mark.parametrize(
    ("accuracy", "gain", "verdict"),
    [
        (0.9, 1.7, Verdict.HOLDS),
        (0.85, 1.7, Verdict.FAILS),
        (0.9, 1.2, Verdict.FAILS),
        (0.885, 1.7, Verdict.OPEN),
        (0.9, 4.0, Verdict.FAILS),
    ],
)
def test_thresholds(find: Any, fabricate: Any, make: Any, accuracy: float, gain: float, verdict: Verdict) -> None:
    """The last one is faster than τ = 0.5: no smooth frontier."""
    finding = find(3, swept(fabricate, make, {None: (0.9, 1), 0.95: (accuracy, gain), 0.5: (0.6, 3)}))
    assert finding.verdict is verdict
    assert [row[0] for row in finding.tables[0].rows] == ["none", "0.95", "0.5"]
    assert len(finding.tables) == 1


def test_thresholds_need_one_token_mode_and_the_papers_threshold(find: Any, fabricate: Any, make: Any) -> None:
    assert find(3, swept(fabricate, make, {None: (0.9, 1), 0.9: (0.8, 2), 0.5: (0.6, 3)})).verdict is Verdict.MISSING
    assert find(3, swept(fabricate, make, {0.95: (0.9, 2), 0.5: (0.6, 3)})).verdict is Verdict.MISSING


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.HOLDS), (1.5, Verdict.FAILS)])
def test_scores(find: Any, fabricate: Any, make: Any, factor: float, verdict: Verdict) -> None:
    """Margin gains `factor` times what the others gain at the same accuracies."""
    runs = swept(fabricate, make, {None: (0.9, 1)})
    for score, thresholds in (("probability", (0.9, 0.6)), ("margin", (0.8, 0.5)), ("entropy", (0.3, 1.2))):
        more = factor if score == "margin" else 1.0
        points_of = dict(zip(thresholds, ((0.89, 2 * more), (0.86, 3 * more)), strict=True))
        runs += swept(fabricate, make, points_of, score=score)
    finding = find(5, runs)
    assert finding.verdict is verdict
    assert [row[:2] for row in finding.tables[0].rows] == [
        ("probability", "0.9, 0.6"),
        ("margin", "0.8, 0.5"),
        ("entropy", "0.3, 1.2"),
    ]
    assert find(5, runs[:5]).verdict is Verdict.MISSING


@pytest.mark.parametrize(
    ("gain", "accuracy", "verdict"),
    [(2.5, 0.88, Verdict.HOLDS), (2.5, 0.8, Verdict.FAILS), (2.0, 0.88, Verdict.FAILS), (1.5, 0.88, Verdict.FAILS)],
)
def test_the_extra_proposal(
    find: Any, fabricate: Any, make: Any, gain: float, accuracy: float, verdict: Verdict
) -> None:
    runs = swept(fabricate, make, {None: (0.9, 1), 0.95: (0.88, 2), 0.7: (0.8, 3)})
    runs += swept(fabricate, make, {0.95: (accuracy, gain), 0.7: (0.8, 4)}, extra_proposal=True)
    finding = find(11, runs)
    assert finding.verdict is verdict
    assert [row[1] for row in finding.tables[0].rows] == ["0.95", "0.7"]
    assert "at a loss of 2 points" in finding.tables[1].title
    assert find(11, runs[:3]).verdict is Verdict.MISSING


# Claims 4, 7 and 10: timed


def timed(
    make: Any, model: Any, decoder: str, speed: float, batch_size: int = 4, group: str = "g", **rest: Any
) -> Pair:
    return make(model, decoder, speed=speed, batch_size=batch_size, group=group, problems=100, **rest)


@pytest.mark.parametrize(("speed", "verdict"), [(150, Verdict.HOLDS), (90, Verdict.FAILS)])
def test_block_cache(find: Any, fabricate: Any, make: Any, speed: float, verdict: Verdict) -> None:
    model = mars(fabricate, 8)
    runs = [timed(make, model, "autoregressive", 100)]
    for size, factor in ((8, 0.8), (32, 1.0)):
        runs.append(timed(make, model, "block_cached", speed * factor, threshold=0.95, cache_block_size=size))
    finding = find(4, runs)
    assert finding.verdict is verdict
    assert f"{speed / 100:.2f}×" in finding.measured[0]
    assert "with cache blocks of 32" in finding.measured[0]
    apart = [timed(make, model, "autoregressive", 100, group="other"), *runs[1:]]
    assert find(4, apart).verdict is Verdict.MISSING, "seconds of other groups cannot be compared"
    others = [timed(make, model, name, 100, 8, threshold=0.9) for name in ("autoregressive", "block_cached")]
    assert find(4, others).verdict is Verdict.MISSING, "the claim is about batch 4"


@pytest.mark.parametrize(("other", "verdict"), [(120, Verdict.HOLDS), (200, Verdict.OPEN)])
def test_block_cache_is_compared_on_its_own_weights_and_must_beat_every_ar_run_of_its_size(
    find: Any, fabricate: Any, make: Any, other: float, verdict: Verdict
) -> None:
    model, small = mars(fabricate, 8), {**ar(fabricate, 900, "small"), "parameters": 400}
    runs = [timed(make, each, "autoregressive", speed) for each, speed in ((model, 100), (ar(fabricate), other))]
    runs.append(timed(make, small, "autoregressive", 500))
    finding = find(4, [*runs, timed(make, model, "block_cached", 150, threshold=0.95)])
    assert finding.verdict is verdict
    assert "1.50×" in finding.measured[0]
    [further] = finding.why
    assert f"against plain in the same turns, a model of this size, it is {150 / other:.2f}×" in further


@pytest.mark.parametrize(
    ("speeds", "verdict"),
    [((130, 140), Verdict.HOLDS), ((130, 90), Verdict.FAILS), ((130, None), Verdict.MISSING)],
)
def test_speculative(
    find: Any, fabricate: Any, make: Any, speeds: tuple[float, float | None], verdict: Verdict
) -> None:
    plain, masked = ar(fabricate), mars(fabricate, 4)
    runs = [
        timed(make, plain, "speculative", speed, 1, draft=plain, draft_tokens=k) for speed, k in ((100, 4), (80, 2))
    ]
    for draft, speed in zip((plain, masked), speeds, strict=True):
        if speed is not None:
            runs.append(timed(make, masked, "speculative", speed, 1, draft=draft, continuation=True, threshold=0.9))
    finding = find(7, runs)
    assert finding.verdict is verdict
    assert finding.tables[0].rows[0][1:3] == ("AR → AR", "K = 4"), "the fastest setting of the baseline"
    without = timed(make, masked, "speculative", 500, 1, draft=plain)
    assert len(find(7, [*runs, without]).runs) == len(finding.runs), "a MARS target goes on with its own masks"


@pytest.mark.parametrize(("speed", "verdict"), [(130, Verdict.HOLDS), (110, Verdict.FAILS), (120, Verdict.OPEN)])
def test_waiting(find: Any, fabricate: Any, make: Any, speed: float, verdict: Verdict) -> None:
    """At batch 16; at 4 it is surely faster than both cache block sizes, at 1 slower, which does not count."""
    model, runs = mars(fabricate, 8), []
    for batch_size, fast in ((1, 10.0), (4, 130.0), (16, speed)):
        runs.append(timed(make, model, "sliding_window", fast, batch_size, threshold=0.95))
        for size, slow in ((8, 100), (32, 120)):
            options = {"threshold": 0.95, "cache_block_size": size}
            runs.append(timed(make, model, "block_cached", slow, batch_size, **options))
    finding = find(10, runs)
    assert finding.verdict is verdict
    assert len(finding.measured) == 2
    assert find(10, [run for run in runs if run[0]["settings"]["threshold"] is None]).verdict is Verdict.MISSING


# Claims 6 and 8


@pytest.mark.parametrize(("gain", "verdict"), [(1.1, Verdict.HOLDS), (2.0, Verdict.FAILS)])
def test_jacobi(find: Any, fabricate: Any, make: Any, gain: float, verdict: Verdict) -> None:
    model = ar(fabricate)
    runs = [make(model), make(model, "jacobi", gain=gain, draft_tokens=8), make(model, "jacobi", draft_tokens=2)]
    finding = find(6, runs)
    assert finding.verdict is verdict
    assert "with 8 draft tokens" in finding.measured[0]
    assert [row[1] for row in finding.tables[0].rows] == ["2", "8"]
    assert find(6, [make(model), make(mars(fabricate, 8), "jacobi")]).verdict is Verdict.MISSING


@pytest.mark.parametrize(("accuracy", "verdict"), [(0.5, Verdict.HOLDS), (0.88, Verdict.FAILS), (0.85, Verdict.OPEN)])
def test_block_diffusion(find: Any, fabricate: Any, make: Any, accuracy: float, verdict: Verdict) -> None:
    diffusion = mars(fabricate, 4, stage="block_diffusion")
    tried = [make(diffusion, "block_diffusion", accuracy=each) for each in (accuracy, accuracy - 0.2)]
    tried[1][0]["settings"]["threshold"] = 0.9
    tried[1][0]["id"] += "9"
    few = make(diffusion, "block_diffusion", accuracy=1.0, problems=5)
    runs = [make(ar(fabricate)), make(mars(fabricate, 4)), make(ar(fabricate), problems=5), few, *tried]
    finding = find(8, runs)
    assert finding.verdict is verdict, "the more accurate setting, but never one on few problems"
    assert [row[2] for row in finding.tables[0].rows] == ["plain", "4True100mars"]


# Claim 9


def exact_runs(fabricate: Any, make: Any, *, gain: float = 3.0, text: str = "") -> list[Pair]:
    runs = swept(fabricate, make, {None: (0.9, 1), 0.99: (0.895, 2), 0.5: (0.7, 5)})
    layouts = ((gain, "quadratic"), (gain - 0.5, "linear"))
    exact = [make(mars(fabricate, 8), "self_speculative", gain=each, layout=layout) for each, layout in layouts]
    return [*runs, *(with_text(run, text) for run in exact)]


@pytest.mark.parametrize(
    ("gain", "text", "verdict"), [(3.0, "", Verdict.HOLDS), (3.0, "other", Verdict.FAILS), (1.7, "", Verdict.FAILS)]
)
def test_exact(find: Any, fabricate: Any, make: Any, gain: float, text: str, verdict: Verdict) -> None:
    finding = find(9, exact_runs(fabricate, make, gain=gain, text=text))
    assert finding.verdict is verdict
    assert finding.measured[0].endswith(f"{'0' if text else '1,200'} of 1,200 texts identical")
    assert "of τ = 0.99" in finding.measured[1], "τ = 0.5 loses too much to count"
    assert "τ = 0.99: tokens per forward" in finding.notes[0] or "no setting surely" in finding.notes[0]


def test_exact_on_the_clock(find: Any, fabricate: Any, make: Any) -> None:
    model, runs = mars(fabricate, 8), exact_runs(fabricate, make)
    for batch_size, speed in ((1, 150), (4, 130), (16, 90)):
        runs.append(timed(make, model, "autoregressive", 100, batch_size))
        runs.append(timed(make, model, "self_speculative", speed, batch_size))
        runs.append(timed(make, model, "sliding_window", 120, batch_size, threshold=0.99))
        runs.append(timed(make, model, "sliding_window", 500, batch_size, threshold=0.5))
    finding = find(9, runs)
    assert finding.measured[-1].endswith("surely faster up to batch 4 (tried 1, 4, 16)")
    assert [row[5] for row in finding.tables[-1].rows] == ["τ = 0.99"] * 3, "not τ = 0.5, which loses 20 points"


# Claim 12


def bench(low: float, batch_size: int = 4) -> dict[str, Any]:
    def result(contestant: str, factor: float) -> dict[str, Any]:
        speed = {"median": 100 * factor, "low": 90 * factor, "high": 110 * factor}
        over = {"median": factor, "low": factor * low / 2, "high": factor * 1.1}
        speeds = {"tokens_per_second": speed, "speedup_over_generate": over, "speedup_over_autoregressive": over}
        return {"contestant": contestant, "batch_size": batch_size, "bandwidth_share": None, **speeds}

    results = [result("generate", 1), result("autoregressive", 2), result("sliding_window@0.95", 3)]
    about = {"hardware": "a machine", "device": "cpu", "dtype": "float32", "repeats": 5, "n": 48}
    return {"results": results, "contestants": {}, "command": "python -m analysis bench", **about}


@pytest.mark.parametrize(("low", "verdict"), [(1.5, Verdict.HOLDS), (0.8, Verdict.OPEN)])
def test_fair_baseline(fabricate: Any, tmp_path: Path, low: float, verdict: Verdict) -> None:
    (tmp_path / "bench-here.json").write_text(json.dumps(bench(low)))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "notes.json").write_text("[]")
    finding = judge(read_evidence(fabricate.store([]), tmp_path))[CLAIMS[-1]]
    assert finding.verdict is verdict
    assert finding.commands == ["python -m analysis bench"]
    row = finding.tables[0].rows[0]
    assert row[4] == "sliding_window@0.95"
    assert row[5].startswith("3.00×")


def test_claimed_figures_come_from_the_tables(fabricate: Any) -> None:
    published = read_evidence(fabricate.store([]), NOWHERE).published
    claimed = {claim.number: claim.claimed(published) for claim in CLAIMS}
    for number_, words in {
        1: "30.4 against 28.7 of AR SFT",
        2: "from 28.4 to 22.2 without the SFT loss, and from 30.4 to 29.7 with it",
        3: "costs 1.0 to 1.6 points",
        4: "up to 1.71× AR, at batch 4 with cache blocks of 32; without a cache 0.49× at batch 8 and 0.23× at batch 16",
        6: "1.07 tokens per forward",
        7: "1.27× with a MARS target, 1.40× with both",
        8: "falls to 22.8",
        12: "28 ms per step at batch 4 where reading the weights takes 3.2 ms: 11%",
    }.items():
        assert words in claimed[number_]


# The page


def some_evidence(fabricate: Any, make: Any) -> Evidence:
    return read_evidence(fabricate.store([*one_token(fabricate, make, 0.9), *exact_runs(fabricate, make)]), NOWHERE)


def test_page_has_a_row_and_a_section_for_each_claim(fabricate: Any, make: Any) -> None:
    evidence = some_evidence(fabricate, make)
    found = judge(evidence)
    page = to_markdown(found, evidence.published, Path("runs"), ["runs/x.parquet: column tokens is missing"])
    lines = page.splitlines()
    table = [line for line in lines if line.startswith("| [")]
    assert len(table) == len(CLAIMS)
    assert all(line.count(" | ") == 6 for line in table)
    sections = [line for line in lines if line.startswith("## ")]
    assert [
        f"## {claim.number}. {claim.title}: {finding.verdict.value}" for claim, finding in found.items()
    ] == sections
    assert "- runs/x.parquet: column tokens is missing" in lines
    assert "0.001 M parameters, n = 600" in table[0]
    assert "`python -m analysis sweep …`" in table[0]
    for run in found[CLAIMS[0]].runs:
        assert f"`{run.id}`" in page
    assert max(len(line) for line in lines if not line.startswith(("|", "Rule:", "Claimed"))) < 2_000


def test_json_says_the_same(fabricate: Any, make: Any) -> None:
    evidence = read_evidence(fabricate.store(one_token(fabricate, make, 0.9)), NOWHERE)
    described = to_json(judge(evidence), evidence.published)
    assert [each["number"] for each in described] == list(range(1, 13))
    first = described[0]
    assert (first["verdict"], first["n"], first["parameters"]) == ("holds", [600], [1000])
    assert len(first["runs"]) == 3
    assert described[1]["verdict"] == "not measured"
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_command_writes_the_page(fabricate: Any, make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for entry, rows in one_token(fabricate, make, 0.9):
        write_run(tmp_path / "runs", entry, rows)
    page = tmp_path / "new" / "claims.md"
    arguments = ["claims", "--runs", str(tmp_path / "runs"), "--out", str(page), "--json"]
    assert main(arguments) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].split() == [*f"1. {CLAIMS[0].title}".split(), "holds"]
    described = json.loads(output[-1])
    assert (described["runs"], described["left_out"]) == (3, [])
    first = page.read_text(encoding="utf-8")
    assert "## 1." in first
    assert main(arguments) == 0
    assert page.read_text(encoding="utf-8") == first, "the same runs give the same page"


def test_the_page_in_the_repository_is_of_the_runs_in_it() -> None:
    """`python -m analysis claims` brings it up to date."""
    committed = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    folder = ROOT / "assets" / "runs"
    found = judge(read_evidence(read_runs(folder), folder))
    verdicts = [f"## {claim.number}. {claim.title}: {finding.verdict.value}" for claim, finding in found.items()]
    assert [line for line in committed.splitlines() if line.startswith("## ")] == verdicts
    named = {run.id for finding in found.values() for run in finding.runs}
    assert {word for word in committed.split("`") if word in named} == named


def test_command_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--runs", str(tmp_path / "none"), "--out", str(tmp_path / "x.md")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_sampled_runs_take_no_part(fabricate: Any, make: Any) -> None:
    assert Book(fabricate.store([make(ar(fabricate), temperature=0.7)])).runs == []


def test_numbers_read_well() -> None:
    assert points(Interval(-0.31, -1.24, 0.61)) == "−0.3 [−1.2, +0.6]"
    assert points(Interval(-0.01, -0.04, 0.02)) == "0.0 [0.0, 0.0]"
    assert number(Interval(2.751, 2.7, 2.8)) == "2.75 [2.70, 2.80]"


def test_no_torch_is_loaded() -> None:
    code = "import sys, analysis.claims, analysis.stats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_runs_of_other_groups_take_no_turns_together(fabricate: Any, make: Any) -> None:
    runs: list[Run] = Book(fabricate.store([make(group="a"), make(group="b"), make()])).runs
    assert len({run.turn for run in runs}) == 3
