from __future__ import annotations

from pathlib import Path

from app.tradeoffs.catalogue import FIGURES, TIMED, Need, advice, has

TIMED_PLAN = """schema = 1
timed = true
[[group]]
decoders = ["block_cached"]
"""


def test_the_plan_that_makes_such_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text('schema = 1\n[[group]]\ndecoders = "jacobi"\n')
    (tmp_path / "clock.toml").write_text(TIMED_PLAN)
    (tmp_path / "broken.toml").write_text("[[[")
    need = Need(words="timed runs", made_by=has("timed", True))
    assert advice(need, tmp_path) == "This makes timed runs: python -m analysis sweep analysis/plans/clock.toml"


def test_without_such_a_plan_the_manual_is_named(tmp_path: Path) -> None:
    need = Need(words="timed runs", made_by=has("timed", True))
    assert advice(need, tmp_path) == "No plan in analysis/plans makes timed runs; docs/runs.md says how to write one."


def test_the_repository_has_a_plan_for_every_figure() -> None:
    for need in [TIMED, *(figure.need for figure in FIGURES.values())]:
        assert advice(need).startswith("This makes ")
