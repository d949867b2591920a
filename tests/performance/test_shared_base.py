"""The measure of memory on tiny models, and its verdict."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.performance import shared_base


def test_all_lanes_write() -> None:
    """On two models rather than a base and its adapter: no adapter of a tiny model is shipped."""
    assert shared_base.megabytes(shared_base.LANES, "assets/checkpoints/ar-sft", "assets/checkpoints/mars-b8", 4) > 50


@pytest.mark.parametrize(("three", "code"), [(130.0, 0), (131.0, 1)])
def test_the_verdict(
    three: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def apart(lanes: Sequence[str], *_: object) -> float:
        return 100.0 if len(lanes) == 1 else three

    monkeypatch.setattr(shared_base, "apart", apart)
    assert shared_base.main([]) == code
    assert f"{three / 100:.2f} ×" in capsys.readouterr().out
