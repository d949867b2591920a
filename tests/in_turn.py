"""Exact decoding in given layouts by turns, whatever a controller thinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mars.decoding.method import Row
from mars.decoding.self_speculative import SelfSpeculative


def in_turn(choose: Callable[[], Any]) -> Callable[..., list[Row]]:
    """A `Controller.plan` after which all rows of layout auto have the layout that `choose` says."""

    def plan(_controller: object, rows: Sequence[Row], **_load: int) -> list[Row]:
        open_rows = [row for row in rows if isinstance(row.method, SelfSpeculative)]
        open_rows = [row for row in open_rows if row.layout is not None or row.method.layout is None]
        layout = choose() if open_rows else None
        for row in open_rows:
            row.method, row.layout = replace(row.method, layout=layout), layout
        return []

    return plan
