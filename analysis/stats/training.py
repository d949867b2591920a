"""How well an adapter fills masks, by steps and hours of training: from the log in its record. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pandas as pd

BINS = 10
"""Rows of the curve."""


def training_curve(record: Mapping[str, Any]) -> pd.DataFrame:
    """The means over tenths of the log: `steps`, `hours`, `loss`, `mask_1` … and `tokens`; no rows without a log.

    `mask_k` is how often mask k's most probable token is the one written, given the token before it where the adapter
    has a head; masks past the adapter's own block are left out. `tokens` are those of a pass if masks were right
    independently of each other. Hours are the recorded seconds in proportion to the steps.
    """
    measured = record.get("measured", {})
    log = [line for line in measured.get("log", ()) if "loss" in line]
    kind = "given" if record.get("head") else "alone"
    masks = range(1, min(record["masks"], record["block_size"] - 1) + 1) if log and record.get("masks") else ()
    if not masks:
        return pd.DataFrame()
    size = -(-len(log) // BINS)
    rows = []
    for first in range(0, len(log), size):
        part = pd.DataFrame(log[first : first + size])
        done = (first + len(part)) / len(log)
        shares = [float(part[f"{kind}_{mask}"].mean()) for mask in masks]
        rows.append(
            {
                "steps": done * measured["steps"],
                "hours": done * measured["seconds"] / 3600,
                "loss": float(part["loss"].mean()),
                **{f"mask_{mask}": share for mask, share in zip(masks, shares, strict=True)},
                "tokens": 1 + sum(accumulate(shares, lambda one, other: one * other)),
            }
        )
    return pd.DataFrame(rows)
