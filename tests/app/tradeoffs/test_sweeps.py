from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.tradeoffs.catalogue import FIGURES, TIMED, Need

PLANS = Path(__file__).parents[3] / "analysis" / "plans"
NEEDS = {need.words: need for need in (TIMED, *(figure.need for figure in FIGURES.values()))}


def test_the_plan_that_makes_such_runs_is_named() -> None:
    assert TIMED.advice == "This makes timed runs: python -m analysis sweep analysis/plans/block-cache.toml"


@pytest.mark.parametrize("need", NEEDS.values(), ids=list(NEEDS))
def test_the_repository_has_the_plan_of_every_figure(need: Need) -> None:
    plan = tomllib.loads((PLANS / f"{need.plan}.toml").read_text(encoding="utf-8"))
    makes = {
        "timed": lambda group: group.get("timed"),
        "scores": lambda group: {"margin", "entropy"} & set(group.get("scores", ())),
        "block_cached": lambda group: "block_cached" in group["decoders"],
        "proposals": lambda group: group.get("proposals"),
    }
    groups = [{**plan, **group} for group in plan["group"]]
    asked = [made for word, made in makes.items() if word in need.words]
    assert any(all(made(group) for made in asked) for group in groups)
