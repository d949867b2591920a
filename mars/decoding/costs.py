"""Seconds of a pass by its columns, and the price of one more column: the choice of layouts rests on both.

Passes of one column and of a few say little about wider ones: many devices use other kernels to multiply matrices by so
few vectors. There the time may jump and then hardly grow; a line through that jump would make every wide pass look too
slow to try.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

Points = Sequence[tuple[float, float]]
"""Columns and seconds, ascending."""
Kind = Literal["plain", "line", "tree"]
"""Of a pass: without masks, with masks in one causal line, or with groups of masks behind several prefixes."""
_LIKE: Mapping[Kind, Sequence[Kind]] = {
    "plain": ("plain", "line", "tree"),
    "line": ("line", "tree", "plain"),
    "tree": ("tree", "line", "plain"),
}
"""Which kinds say what one takes, itself first."""

TRIALS = 3  # passes after which a time counts as known
KEPT = 9  # passes that a time is the lower quartile of
MANY = 4  # columns from which on a pass says what wider ones take
CHEAPEST = 0.01  # price of a column, in tokens
FEW = 32  # columns beyond which time is taken to grow at least a quarter as fast as they do


class Profile:
    """Seconds of a pass by its columns: the lower quartile of the last passes of each size, joined by lines.

    It is the quartile because disturbances only make a pass longer, and the first passes of a shape take several times
    as long. More columns never take less time: sizes that contradict this, by noise, get the quartile of all their
    passes.
    """

    def __init__(self) -> None:
        self._times: dict[int, deque[tuple[int, float]]] = {}
        self._known: dict[int, tuple[float, float]] = {}  # by size: the mean columns, the quartile
        self._new: set[int] = set()  # sizes since `points`
        self._points: Points = ()

    def took(self, columns: int, seconds: float) -> None:
        """A pass of so many columns took so long."""
        size = size_of(columns)
        times = self._times.setdefault(size, deque(maxlen=KEPT))
        times.append((columns, seconds))
        if len(times) >= TRIALS:
            self._new.add(size)

    @property
    def points(self) -> Points:
        """The mean columns and the seconds of each size that is known, ascending in both."""
        if self._new:
            for size in self._new:
                times = self._times[size]
                width = sum(columns for columns, _ in times) / len(times)
                self._known[size] = width, _quartile([seconds for _, seconds in times])
            self._new.clear()
            sizes = sorted(self._known)
            widths = [self._known[size][0] for size in sizes]
            quartiles = [self._known[size][1] for size in sizes]
            if any(longer < taken for taken, longer in pairwise(quartiles)):
                quartiles = ascending([[seconds for _, seconds in self._times[size]] for size in sizes])
            self._points = list(zip(widths, quartiles, strict=True))
        return self._points


class PassTimes:
    """T: seconds of a pass by its columns, separately for each kind.

    At the same number of columns a pass with masks takes longer, and a tree longer than a line. A
    kind not seen yet is estimated from the others, rather too low than too high, so that it is tried.
    """

    def __init__(self) -> None:
        self._profiles = {kind: Profile() for kind in _LIKE}
        self._mixed: dict[Kind, Points] = {}  # since the last pass

    def took(self, columns: int, seconds: float, kind: Kind) -> None:
        """A pass of so many columns took so long."""
        self._profiles[kind].took(columns, seconds)
        self._mixed.clear()

    def seconds(self, columns: float, kind: Kind) -> float | None:
        """The seconds of a pass of so many columns; None before anything is known.

        Where passes without masks were timed, those with masks do not count: they may be of long ago, and one row of
        eight columns takes less time than eight rows of one.
        """
        plain = self._profiles["plain"].points
        if kind == "plain" and plain and columns <= plain[-1][0]:
            return curve(plain, columns)
        found = [curve(points, columns) for points in (self._points(kind), plain if kind == "plain" else ()) if points]
        return min(filter(None, found), default=None)

    def _points(self, kind: Kind) -> Points:
        """Those of passes with masks, like this kind if there are any, and below them of passes without."""
        if kind not in self._mixed:
            with_masks = (self._profiles[like].points for like in _LIKE[kind] if like != "plain")
            spent = next(filter(None, with_masks), ())
            narrower = [point for point in self._profiles["plain"].points if not spent or point[0] < spent[0][0]]
            self._mixed[kind] = [*narrower, *spent]
        return self._mixed[kind]

    def price(self, columns: float, rate: float, kind: Kind) -> float | None:
        """The price of one more column in a pass of this kind, else of the next kind that is known (`price`)."""
        prices = (price(self._profiles[like].points, columns, rate) for like in _LIKE[kind])
        return next((found for found in prices if found is not None), None)


def ascending(samples: Sequence[Sequence[float]]) -> list[float]:
    """The lower quartile of each sample; samples whose quartiles fall share their joint one (isotonic regression)."""
    pooled: list[tuple[float, list[float], int]] = []
    for sample in samples:
        values, count = list(sample), 1
        quartile = _quartile(values)
        while pooled and pooled[-1][0] > quartile:
            _, before, more = pooled.pop()
            values, count = before + values, more + count
            quartile = _quartile(values)
        pooled.append((quartile, values, count))
    return [quartile for quartile, _, count in pooled for _ in range(count)]


def _quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


def curve(points: Points, columns: float) -> float | None:
    """Seconds at so many columns, by lines between the points; None without points.

    To the right of the points, time grows as it does from the first to the last point with at least `MANY` columns.
    Past `FEW` columns it grows at least a quarter as fast as the columns, so that wide passes are tried step by step.
    """
    if not points:
        return None
    place = bisect_left(points, (columns, 0.0))
    if place == 0:
        return points[0][1]
    before, taken = points[place - 1]
    if place < len(points):
        behind, longer = points[place]
        return taken + (longer - taken) * (columns - before) / (behind - before)
    return taken + max(slope(points), taken / max(before, FEW) / 4) * (columns - before)


def slope(points: Points) -> float:
    """Seconds for one more column, from the first to the last point with `MANY` columns; 0 without two such points."""
    wide = [point for point in points if point[0] >= MANY]
    if len(wide) < 2 or wide[0][0] == wide[-1][0]:
        return 0.0
    return (wide[-1][1] - wide[0][1]) / (wide[-1][0] - wide[0][0])


def price(points: Points, columns: float, rate: float) -> float | None:
    """The price of one more column in a pass of about so many, in tokens, at this rate in tokens a second.

    It is the slope from half as many columns (at least the narrowest timed pass with `MANY`) to twice as many, times
    the rate, and at least `CHEAPEST`. None before two such widths were timed.
    """
    wide = [point for point in points if point[0] >= MANY]
    if len(wide) < 2:
        return None
    low = max(columns / 2, wide[0][0])
    high = 2 * max(columns, low)
    less, more = curve(points, low), curve(points, high)
    if less is None or more is None:
        return None
    return max((more - less) / (high - low) * rate, CHEAPEST)


def size_of(rows: int) -> int:
    """Numbers of rows that are timed together: each up to 4, then in steps of about a quarter."""
    step = max(1, 2 ** (rows.bit_length() - 3))
    return -(-rows // step) * step
