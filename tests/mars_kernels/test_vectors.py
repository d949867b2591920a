"""Steps by whole vectors against the same by numpy, in the order that is written down."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from mars_kernels.cpu.vectors import largest_sum, sum_of, sum_of_squares


@pytest.mark.parametrize("count", [0, 5, 16, 40, 576])
def test_sums_are_those_of_sixteen_lanes(count: int) -> None:
    x = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    lanes = x[: count // 16 * 16].reshape(-1, 16).sum(0)
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    expected = lanes[0]
    for left in x[count // 16 * 16 :]:
        expected += left
    assert _sum(x, count) == expected
    assert _squares(x, count) == pytest.approx(x.astype(np.float64) @ x, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("count", [0, 16, 64, 576])
def test_the_largest_sum_of_two_numbers(count: int) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 576)).astype(np.float32)
    y[3::5] = -1e30
    assert _largest(x, y, count) == max((x + y)[:count], default=np.float32(-3e38))


@njit
def _largest(x, y, count):  # type: ignore[no-untyped-def]
    found = largest_sum(x.ctypes.data, y.ctypes.data, count)
    return found + np.float32(0) * (len(x) + len(y))


@njit
def _sum(x, count):  # type: ignore[no-untyped-def]
    found = sum_of(x.ctypes.data, count)
    return found + np.float32(0) * len(x)


@njit
def _squares(x, count):  # type: ignore[no-untyped-def]
    found = sum_of_squares(x.ctypes.data, count)
    return found + np.float32(0) * len(x)
