"""The evidence for claims: models of each kind, their runs on enough problems, and their findings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.claims import CLAIMS, Evidence, Finding, read_evidence

NOWHERE = Path(__file__).parents[3] / "tests" / "data" / "nowhere"
Pair = tuple[dict[str, Any], pd.DataFrame]
N = 300
"""Problems of each of two families: enough that a difference of 0 is surely less than a point."""


@pytest.fixture
def make(fabricate: Any) -> Callable[..., Pair]:
    """`make(model, decoder, …)`: a run on N problems of each family."""
    return lambda *args, **options: fabricate.run(*args, **{"problems": N, **options})


@pytest.fixture
def evidence_of(fabricate: Any) -> Callable[..., Evidence]:
    """`evidence_of(runs)`: a store with these runs, and no benchmarks beside them."""
    return lambda runs: read_evidence(fabricate.store(runs), NOWHERE)


@pytest.fixture
def find(evidence_of: Any) -> Callable[..., Finding]:
    """`find(claim, runs)`: the finding of the claim with this number."""

    def found(claim: int, runs: list[Pair]) -> Finding:
        return CLAIMS[claim - 1].find(evidence_of(runs))

    return found


@pytest.fixture
def ar(fabricate: Any) -> Callable[..., dict[str, Any]]:
    """`ar(examples, name)`: an AR model."""

    def model(examples: int = 900, name: str = "plain") -> dict[str, Any]:
        return {**fabricate.model(name, "sft", None, None), "examples": examples}

    return model


@pytest.fixture
def mars(fabricate: Any) -> Callable[..., dict[str, Any]]:
    """`mars(size, …)`: a MARS model of this block size, or one of another `stage`."""

    def model(size: int, *, loss: bool = True, examples: int = 100, stage: str = "mars") -> dict[str, Any]:
        name = f"{size}{loss}{examples}{stage}"
        return {**fabricate.model(name, stage, size, loss if stage == "mars" else None), "examples": examples}

    return model


@pytest.fixture
def one_token(make: Any, ar: Any, mars: Any) -> Callable[..., list[Pair]]:
    """`one_token(accuracy, double)`: AR, MARS of this accuracy, and AR that saw twice as much unless it is None."""

    def runs(accuracy: float, double: float | None = 0.9) -> list[Pair]:
        both = [make(ar()), make(mars(4), accuracy=accuracy)]
        return both if double is None else [*both, make(ar(200, "double"), accuracy=double)]

    return runs


@pytest.fixture
def swept(make: Any, mars: Any) -> Callable[..., list[Pair]]:
    """`swept({τ: (accuracy, gain)}, …)`: runs of sliding_window by threshold, `gain` in tokens per forward."""

    def runs(at: dict[float | None, tuple[float, float]], **settings: Any) -> list[Pair]:
        model = mars(8)
        return [
            make(model, "sliding_window", threshold=threshold, accuracy=accuracy, gain=gain, **settings)
            for threshold, (accuracy, gain) in at.items()
        ]

    return runs


@pytest.fixture
def timed(make: Any) -> Callable[..., Pair]:
    """`timed(model, decoder, speed, …)`: a timed run; those of one group and batch size took turns."""

    def run(model: Any, decoder: str, speed: float, batch_size: int = 4, group: str = "g", **rest: Any) -> Pair:
        return make(model, decoder, speed=speed, batch_size=batch_size, group=group, problems=100, **rest)

    return run


@pytest.fixture
def exact_runs(make: Any, mars: Any, swept: Any) -> Callable[..., list[Pair]]:
    """`exact_runs(gain=…, text=…)`: a sweep, and exact runs with both layouts, the better one of this gain."""

    def runs(*, gain: float = 3.0, text: str = "") -> list[Pair]:
        thresholds = swept({None: (0.9, 1), 0.99: (0.895, 2), 0.5: (0.7, 5)})
        layouts = ((gain, "quadratic"), (gain - 0.5, "linear"))
        exact = [make(mars(8), "self_speculative", gain=each, layout=layout) for each, layout in layouts]
        return [*thresholds, *((entry, rows.assign(text=text)) for entry, rows in exact)]

    return runs
