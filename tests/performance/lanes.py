"""The lanes of a load test: one engine under several names, each with its own way of spending on drafts.

Each lane has passes of its own, so that one that nobody asks takes no time from the others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mars.checkpoint import Checkpoint
from mars.decoders import BASELINE, EXACT, RELAXED, USUAL
from mars.decoding.controller import Controller
from mars.decoding.experience import NOTHING, Account, Choice, Goodput
from mars.decoding.method import Row
from mars.decoding.trees import Layout
from mars.serve.async_service import AsyncService, Served
from mars.serve.budget import Allowed, allowed
from mars.serve.metrics import Metrics
from mars.serve.routes import LoadedModels

THRESHOLD = 0.95
ANY = sys.maxsize
TABLE = ((1, Choice("tree")), (2, Choice("linear")), (4, Choice("narrow")))
"""As vLLM's `num_speculative_tokens_per_batch_size`: what all spend while at most so many rows write, nothing above.

A row alone has the layout that did best under little load. The others leave a pass about 30 columns: with K = 7, linear
has up to 15 a row and narrow up to 7. Above 4 rows the table of vLLM's issue 49548 ends, too.
"""
LAYOUTS: tuple[Layout, ...] = ("narrow", "linear", "quadratic", "tree", "lookup", "copy")
FIXED = {name: ((ANY, Choice(name)),) for name in LAYOUTS} | {"table": TABLE}
FIXED_LANES = ("ar", *FIXED)
POLICIES = ("exact", "knob")
SAME_TEXT = (*FIXED_LANES, "exact")
"""Lanes whose texts are those of AR."""


class Fixed(Controller):
    """Lets all rows spend the same, whatever it costs: what a table says for their number."""

    def __init__(self, table: Sequence[tuple[int, Choice]]) -> None:
        super().__init__()
        self._table = table

    def _goes_on(self, accounts: Mapping[int, Account]) -> bool:
        return accounts.keys() == self._accounts.keys()

    def _choose(self, rows: Sequence[Row], others: int, *, hurry: bool) -> Goodput:
        self._drafts = min(self._accounts[row.number].own.drafts for row in rows)
        count = len(rows) + others
        self.choice = next((choice for most, choice in self._table if count <= most), NOTHING)
        found = self._best(self.choice, rows, others)
        return replace(found, spending={row.number for row in rows})


def ways(
    within: Allowed, *, tpot: float | None = None, together: bool = False
) -> dict[str, tuple[str, Controller | None]]:
    """The decoder of each lane, and its controller if it has one.

    AR, each fixed layout, the table, τ, the policy `exact`, and `knob` where anything is within its budget. The
    policies know the promise `tpot`; `together` is for engines of static shapes (`controller_of`).
    """
    found: dict[str, tuple[str, Controller | None]] = {"ar": (BASELINE, None)}
    found |= {name: (EXACT, Fixed(table)) for name, table in FIXED.items()}
    found |= {"tau": (USUAL, None), "exact": (EXACT, Controller(tpot=tpot, together=together))}
    policy = Controller(within.thresholds, relaxed=within.relaxed, tpot=tpot, together=together)
    return found | ({"knob": (RELAXED if within.relaxed else EXACT, policy)} if within.thresholds else {})


def lanes(
    checkpoint: Checkpoint,
    metrics: Metrics,
    *,
    places: int,
    queue: int,
    context: int,
    within: Allowed,
    tpot: float | None,
) -> LoadedModels:
    """All lanes, for one server."""

    def served(name: str, decoder: str, controller: Controller | None) -> Served:
        service = AsyncService(checkpoint, metrics, places=places, queue=queue, context=context, controller=controller)
        return Served(name=name, checkpoint=checkpoint, service=service, decoder=decoder, threshold=THRESHOLD)

    known = ways(within, tpot=tpot, together=checkpoint.engine.static_shapes)
    return LoadedModels({name: served(name, *way) for name, way in known.items()})


def allowed_for(source: str, checkpoint: Checkpoint, budget: float | None, runs: Path) -> Allowed:
    """What the policy `knob` may do; nothing without a budget.

    Raises:
        ValueError: the cached runs allow nothing.
    """
    return Allowed() if budget is None else allowed(budget, source, checkpoint.block_size or 8, runs)
