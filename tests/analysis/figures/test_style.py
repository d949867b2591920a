"""Looks: shape as well as colour."""

from analysis.figures.style import BASELINE, Look


def test_looks_differ_in_shape_and_colour() -> None:
    looks = [Look.number(index) for index in range(30)]
    assert len({(look.colour, look.symbol) for look in looks}) == 30
    assert len({(look.colour, look.dash) for look in looks}) == 30
    assert all(one.symbol != other.symbol for one, other in zip(looks, looks[8:], strict=False))
    assert Look.number(-1) == BASELINE
