from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.tradeoffs.catalogue import AXES, FIGURES

PLANS = Path(__file__).parents[3] / "analysis" / "plans"
ADVICE = sorted({figure.advice(against) for figure in FIGURES.values() for against in AXES})


def test_the_plan_that_makes_such_runs_is_named() -> None:
    advice = "This makes timed runs: python -m analysis sweep analysis/plans/block-cache.toml"
    assert FIGURES["frontier"].advice("tokens_per_second") == FIGURES["efficiency"].advice("") == advice


@pytest.mark.parametrize("advice", ADVICE)
def test_the_repository_has_the_plan_of_every_figure(advice: str) -> None:
    words, _, command = advice.partition(": ")
    plan = tomllib.loads((PLANS / Path(command).name).read_text(encoding="utf-8"))
    makes = {
        "timed": lambda group: group.get("timed"),
        "scores": lambda group: {"margin", "entropy"} & set(group.get("scores", ())),
        "block_cached": lambda group: "block_cached" in group["decoders"],
        "proposals": lambda group: group.get("proposals"),
    }
    groups = [{**plan, **group} for group in plan["group"]]
    asked = [made for word, made in makes.items() if word in words]
    assert any(all(made(group) for made in asked) for group in groups)
