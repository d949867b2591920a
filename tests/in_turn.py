"""Exact decoding in given layouts by turns, whatever a policy thinks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mars.decoding.method import Row
from mars.decoding.self_speculative import SelfSpeculative


def in_turn(choose: Callable[[], Any]) -> Callable[..., None]:
    """A `Policy.plan` after which all rows of layout auto have the layout that `choose` says."""

    def plan(_policy: object, rows: Sequence[Row], **_load: int) -> None:
        adapting = [row for row in rows if row.own.adapts]
        layout = choose() if adapting else None
        for row in adapting:
            assert isinstance(row.own, SelfSpeculative)
            row.method = replace(row.own, layout=layout, planned=False)

    return plan
