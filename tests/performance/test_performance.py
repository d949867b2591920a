"""The soak for seconds on the small shipped model."""

from __future__ import annotations

import os

import pytest

from tests.performance import soak
from tests.performance.asking import quantile
from tests.performance.served import resident_megabytes


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]


def test_memory_of_a_process_is_read() -> None:
    assert 1 < resident_megabytes(os.getpid()) < 100_000


@pytest.mark.slow
def test_clients_lose_nothing_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--clients", "6", "--minutes", "0.05", "--questions", "4", "--tokens", "8", "--threads", "1"]
    assert soak.main(few) == 0, capsys.readouterr().out
    assert "wrong: 0; rows left: 0" in capsys.readouterr().out
