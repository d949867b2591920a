"""Claims 1, 2, 3 and 8: verdicts on runs made for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.claims import CLAIMS, ClaimVerdict, read_evidence

# Claim 1


@pytest.mark.parametrize(
    ("accuracy", "double", "verdict"),
    [
        (0.9, 0.9, ClaimVerdict.HOLDS),
        (0.95, 0.9, ClaimVerdict.HOLDS),
        (0.88, 0.9, ClaimVerdict.FAILS),
        (0.9, 0.92, ClaimVerdict.FAILS),
        (0.9, None, ClaimVerdict.MISSING),
        (0.8, None, ClaimVerdict.FAILS),
    ],
)
def test_one_token_mode(
    find: Any, one_token: Any, accuracy: float, double: float | None, verdict: ClaimVerdict
) -> None:
    finding = find(1, one_token(accuracy, double))
    assert finding.verdict is verdict
    assert len(finding.comparisons) == (1 if double is None else 2)


def test_one_token_mode_on_few_problems(find: Any, fabricate: Any, ar: Any, mars: Any) -> None:
    models = (ar(), ar(200, "double"), mars(4))
    finding = find(1, [fabricate.run(model) for model in models])
    assert finding.verdict is ClaimVerdict.OPEN
    assert "0.0 [−" in finding.headline


def test_gated_adapters_leave_other_intervals_alone(find: Any, fabricate: Any, make: Any) -> None:
    """Its texts cannot differ from AR's, so that it is no second chance to err."""
    base = {**fabricate.model("base", None, None, None), "fingerprint": "b" * 16}
    gated, merged = ({**fabricate.model(name, "mars", 4, True), "base": "b" * 16} for name in ("gated", "merged"))
    plain, worse = make(base), make(merged, "sliding_window", accuracy=0.88)
    worse[1]["text"] = [f"other {number}" for number in range(len(worse[1]))]
    alone = find(1, [plain, worse]).comparisons
    both = find(1, [plain, make(gated, "sliding_window"), worse]).comparisons
    assert len(both) == 2
    assert alone[0].measured in [comparison.measured for comparison in both]


def test_few_problems_leave_no_gated_adapter_undecided(find: Any, fabricate: Any, make: Any) -> None:
    base = {**fabricate.model("base", None, None, None), "fingerprint": "b" * 16}
    model = {**fabricate.model("adapter", "mars", 4, True), "base": "b" * 16}
    plain = make(base, problems=20)
    gated, merged = (make(model, "sliding_window", problems=20) for _ in range(2))
    assert find(1, [plain, gated]).verdict is ClaimVerdict.HOLDS
    merged[1]["text"] = [f"other {number}" for number in range(len(merged[1]))]
    assert find(1, [plain, merged]).comparisons[0].verdict is ClaimVerdict.OPEN


def test_the_headline_names_who_falls_behind(find: Any, make: Any, ar: Any, mars: Any) -> None:
    runs = [make(ar()), make(ar(200, "double")), make(mars(4)), make(mars(8), accuracy=0.8)]
    finding = find(1, runs)
    assert finding.verdict is ClaimVerdict.FAILS
    assert "−10.0 [−" in finding.headline


def test_one_token_mode_in_bfloat16_names_its_cpu(find: Any, one_token: Any) -> None:
    """A model writes other texts on another CPU, so that its accuracy is another there."""
    on = {"dtype": "bfloat16", "hardware": "Intel(R) Xeon(R) Processor, 2 cores, AMX"}
    [row, _] = find(1, [({**entry, **on}, rows) for entry, rows in one_token(0.9)]).comparisons
    assert row.compared["CPU of both"].endswith("AMX")
    assert all("CPU of both" not in each.compared for each in find(1, one_token(0.9)).comparisons)


def test_one_comparison_on_each_benchmark(find: Any, make: Any, ar: Any, mars: Any) -> None:
    """On the largest set of each; all comparisons share the confidence."""
    judged = {"harness": {"metric": "prompt_level_strict_acc"}}

    def on(task: str, problems: int, accuracy: float) -> list[Any]:
        made = [
            make(ar(), tasks=(task,), problems=problems),
            make(mars(4), accuracy=accuracy, tasks=(task,), problems=problems),
        ]
        return [({**entry, **judged}, rows) for entry, rows in made]

    ifeval, more = [*on("ifeval", 100, 0.9), *on("ifeval", 200, 0.895)], on("verifiable", 2000, 0.8)
    [alone] = find(1, ifeval).comparisons
    first, second = find(1, [*ifeval, *more]).comparisons
    assert [row.compared["problems"] for row in (alone, first, second)] == [
        "200 of ifeval",
        "2,000 of verifiable",
        "200 of ifeval",
    ]
    assert (first.verdict, second.verdict) == (ClaimVerdict.FAILS, ClaimVerdict.OPEN)
    assert alone.measured["difference (points)"] != second.measured["difference (points)"], "wider beside another"


# Claim 2


@pytest.mark.parametrize(
    ("kept", "degraded", "verdict"),
    [
        (0.9, 0.8, ClaimVerdict.HOLDS),
        (0.8, 0.9, ClaimVerdict.FAILS),
        (0.9, 0.9, ClaimVerdict.FAILS),
        (0.89, 0.885, ClaimVerdict.OPEN),
    ],
)
def test_sft_loss(find: Any, make: Any, mars: Any, kept: float, degraded: float, verdict: ClaimVerdict) -> None:
    """Accuracy at the largest block; 0.9 at the smallest."""
    runs = [
        make(mars(size, loss=loss), accuracy=0.9 if size == 4 else at, problems=200)
        for loss, at in ((True, kept), (False, degraded))
        for size in (4, 16)
    ]
    finding = find(2, runs)
    assert finding.verdict is verdict
    assert "(B = 4), " in finding.comparisons[0].compared["accuracy"]
    assert find(2, runs[:3]).verdict is ClaimVerdict.MISSING


def test_sft_loss_compares_models_that_saw_equally_much(find: Any, make: Any, mars: Any) -> None:
    shipped = make(mars(16, examples=900), accuracy=0.99)
    runs = [make(mars(size, loss=loss)) for loss in (True, False) for size in (4, 8, 16)]
    finding = find(2, [shipped, *runs])
    assert {run.model.examples for run in finding.runs} == {100}


def test_adapters_are_compared_like_tiny_models(fabricate: Any, make: Any) -> None:
    """Merged adapters that saw equally much, beside a shipped one that does not say; AR by twice as much plain SFT."""
    real = {"parameters": 140_000_000, "base": "b" * 16}
    base = {**fabricate.model("base", None, None, None), "fingerprint": "b" * 16, "parameters": 135_000_000}
    shipped = {**fabricate.model("shipped", "mars", 4, None), **real, "examples": None}
    double = {**fabricate.model("double", "sft", None, None), **real, "examples": 576}
    runs = [make({**base, "examples": None}), make(double), make(shipped, "sliding_window", accuracy=0.85)]
    runs[-1][0]["command"] = "python -m analysis ifeval …"  # double was not run beside it
    for size, loss, accuracy in ((4, True, 0.9), (8, True, 0.9), (4, False, 0.8), (8, False, 0.6)):
        adapter = {**fabricate.model(f"{size}{loss}", "mars", size, loss), **real, "examples": 288}
        runs.append(make(adapter, "sliding_window", accuracy=accuracy))
    evidence = read_evidence(fabricate.store(runs), Path("nowhere"), real=True)
    first, second = (next(claim for claim in CLAIMS if claim.number == number).find(evidence) for number in (1, 2))
    assert second.verdict is ClaimVerdict.HOLDS
    assert {run.model.examples for run in second.runs} == {288}
    against = [row.compared["AR"].split(",")[0] for row in first.comparisons]
    assert against.count("double (compute-matched)") == 2
    assert against.count("base (start)") == 3
    assert first.verdict is ClaimVerdict.FAILS, "the shipped one is behind"
    assert not first.needs


# Claim 3


@pytest.mark.parametrize(
    ("accuracy", "gain", "verdict"),
    [
        (0.9, 1.7, ClaimVerdict.HOLDS),
        (0.85, 1.7, ClaimVerdict.FAILS),
        (0.9, 1.2, ClaimVerdict.FAILS),
        (0.885, 1.7, ClaimVerdict.OPEN),
        (0.9, 4.0, ClaimVerdict.FAILS),
    ],
)
def test_thresholds(find: Any, swept: Any, accuracy: float, gain: float, verdict: ClaimVerdict) -> None:
    """The last one is faster than τ = 0.5: no smooth frontier."""
    finding = find(3, swept({None: (0.9, 1), 0.95: (accuracy, gain), 0.5: (0.6, 3)}))
    assert finding.verdict is verdict
    [row] = finding.comparisons
    assert row.measured["steps down in τ"].startswith("2, each" if gain < 4 else "2, not")


def test_thresholds_need_one_token_mode_and_095(find: Any, swept: Any) -> None:
    assert find(3, swept({None: (0.9, 1), 0.9: (0.8, 2), 0.5: (0.6, 3)})).verdict is ClaimVerdict.MISSING
    assert find(3, swept({0.95: (0.9, 2), 0.5: (0.6, 3)})).verdict is ClaimVerdict.MISSING


# Claim 8


@pytest.mark.parametrize(
    ("accuracy", "verdict"), [(0.5, ClaimVerdict.HOLDS), (0.88, ClaimVerdict.FAILS), (0.85, ClaimVerdict.OPEN)]
)
def test_block_diffusion(find: Any, make: Any, ar: Any, mars: Any, accuracy: float, verdict: ClaimVerdict) -> None:
    diffusion = mars(4, stage="block_diffusion")
    tried = [make(diffusion, "block_diffusion", accuracy=each) for each in (accuracy, accuracy - 0.2)]
    tried[1][0]["settings"]["threshold"] = 0.9
    tried[1][0]["id"] += "9"
    few = make(diffusion, "block_diffusion", accuracy=1.0, problems=5)
    runs = [make(ar()), make(mars(4)), make(ar(), problems=5), few, *tried]
    finding = find(8, runs)
    assert finding.verdict is verdict, "the more accurate setting, but never one on few problems"
    against = [row.compared["against"].split(",")[0] for row in finding.comparisons]
    assert against == ["plain", "4True100mars"]
