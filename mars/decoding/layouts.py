"""The layouts of exact decoding: the number of drafts and masks of a row in a pass, and the gain to expect from them.

Wider windows gain more tokens and cost more time; how much more depends on the device and on the rows that share it.
The controller measures which layout pays while text is written (mars/decoding/controller.py). The choice changes the
speed, never the text.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from mars.decoding.trees import MOST_COLUMNS, MOST_DRAFTS

Layout = Literal["none", "copy", "narrow", "linear", "tree", "lookup", "quadratic"]
# Those of a fixed number of columns or a fixed most, from the fewest to the most.
LAYOUTS: tuple[Layout, ...] = ("none", "narrow", "linear", "quadratic")
LINEAR: tuple[Layout, ...] = ("narrow", "linear")
# Those that leave the next pass no drafts, and those in which each row has a plan of its own.
MASKLESS: tuple[Layout, ...] = ("none", "copy")
TREES: tuple[Layout, ...] = ("tree", "lookup", "copy")
NARROW = 3  # the most drafts and masks of a narrow pass

USUAL_COLUMNS = 10  # of a plan with masks, before any was seen
USUAL_COPIES = 3  # of one without
# Gains before anything was seen.
EXPECTED: dict[Layout, float] = {
    "none": 1.0,
    "copy": 1.5,
    "narrow": 1.7,
    "linear": 2.0,
    "tree": 2.2,
    "lookup": 2.5,
    "quadratic": 3.0,
}
REMEMBERED = 400  # passes of a row that the running mean of what a layout gains goes back, about


# Cached because every row asks in every pass.
@cache
def reach_of(layout: Layout, drafts: int) -> int:
    """The most drafts that a pass reads, and the number of masks behind them; K is `drafts`.

    The narrow layout has less than half of K, so that its passes always have fewer columns than linear ones, whose
    number varies. For K below 3 it has none: then there is no such layout.
    """
    return {"none": 0, "copy": 0, "narrow": min(NARROW, (drafts - 1) // 2)}.get(layout, drafts)


@cache
def most_gained(layout: Layout, drafts: int) -> int:
    """The tokens that a pass can gain beside its first."""
    return MOST_DRAFTS if layout in ("lookup", "copy") else reach_of(layout, drafts)


def columns_of(layout: Layout, drafts: int) -> int:
    """The most columns of a pass whose rows have one pending token, Q."""
    square = (drafts + 1) ** 2
    found = {"quadratic": square, "tree": min(square, MOST_COLUMNS), "lookup": MOST_COLUMNS, "copy": 1 + MOST_DRAFTS}
    return found.get(layout, 2 * reach_of(layout, drafts) + 1)


@cache
def usual_columns(layout: Layout, drafts: int) -> int:
    """The columns of a pass, before any of this layout was seen."""
    return {"copy": USUAL_COPIES}.get(layout, USUAL_COLUMNS) if layout in TREES else columns_of(layout, drafts)


@cache
def layout_of(columns: int, drafts: int) -> Layout:
    """The layout of a pass of so many predictions a row; a linear or narrow one may have fewer drafts than it could."""
    if columns == columns_of("quadratic", drafts):
        return "quadratic"
    return next(layout for layout in LAYOUTS if columns <= columns_of(layout, drafts))
