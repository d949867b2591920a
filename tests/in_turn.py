"""Exact decoding in given layouts by turns, whatever a controller thinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mars.decoding.method import Row
from mars.decoding.self_speculative import SelfSpeculative


def in_turn(choose: Callable[[], Any]) -> Callable[..., list[Row]]:
    """A `Controller.plan` after which all rows of a pass have the layout that `choose` says."""

    def plan(_controller: object, rows: Sequence[Row], **_load: int) -> list[Row]:
        layout = choose() if rows else None
        for row in rows:
            if isinstance(row.method, SelfSpeculative):
                row.method = replace(row.method, layout=layout)
        return []

    return plan
