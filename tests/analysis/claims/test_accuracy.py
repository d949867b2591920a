"""Claims 1, 2, 3 and 8: verdicts on runs made for each."""

from typing import Any

import pytest

from analysis.claims import ClaimVerdict

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


def test_few_problems_leave_no_gated_adapter_undecided(find: Any, fabricate: Any, make: Any) -> None:
    base = {**fabricate.model("base", None, None, None), "fingerprint": "b" * 16}
    model = {**fabricate.model("adapter", "mars", 4, True), "base": "b" * 16}
    plain = make(base, problems=20)
    gated, merged = (make(model, "sliding_window", problems=20) for _ in range(2))
    assert find(1, [plain, gated]).verdict is ClaimVerdict.HOLDS
    merged[1]["text"] = [f"other {number}" for number in range(len(merged[1]))]
    assert find(1, [plain, merged]).comparisons[0].verdict is ClaimVerdict.OPEN


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
