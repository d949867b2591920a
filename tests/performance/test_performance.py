"""The soak for seconds on the small shipped model."""

from __future__ import annotations

import pytest

from tests.performance import soak


@pytest.mark.slow
def test_clients_lose_nothing_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--clients", "6", "--minutes", "0.05", "--questions", "4", "--tokens", "8", "--threads", "1"]
    assert soak.main(few) == 0, capsys.readouterr().out
    assert "wrong: 0; rows left: 0" in capsys.readouterr().out
