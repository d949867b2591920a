"""Block diffusion as Step through draws it: its columns and its attention against the windows that were forwarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app import assets
from mars.config import DecodingSettings
from mars.scripted import ScriptedModel
from mars.scripted_diffusion import Diffusing, DiffusingRows
from mars.window import Window

if TYPE_CHECKING:
    import torch
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Write = Callable[..., tuple[Any, list[Window]]]

STOP, MASK = 2, 59
ANSWER = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, STOP]
SCRIPT = assets.script(
    "step-states.js", "step-blocks.js", "step-columns.js", "step-whatif.js", "step-matrix.js", "step-lane.js"
)
DRAWN = """lane => {
    const stepped = new SteppedLane(lane);
    return lane.records.map((record, index) => {
        const { prefix, columns } = stepped.reader.at(index);
        return {
            prefix, kinds: columns.map(column => column.kind), tokens: columns.map(column => column.token),
            proposals: columns.map(column => column.proposal),
            sees: columns.map((_, query) => columns.map((_, key) => sees(columns, query, key))),
            moments: record.rows[0].proposals.map((_, place) => filledWhen(lane, stepped.passes[index], place)),
            outcome: stepped.outcome(stepped.passes[index], { columns }),
        };
    });
}"""


class Watched(Diffusing):
    """A scripted block-diffusion model that keeps every window."""

    windows: list[Window]

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> DiffusingRows:
        self.windows = []
        return WatchedRows(self, rows, capacity)


class WatchedRows(DiffusingRows):
    def forward(self, window: Window) -> torch.Tensor:
        self._engine.windows.append(window)  # type: ignore[attr-defined]
        return super().forward(window)


@pytest.fixture(scope="module")
def scripts(run_scripts: Callable[..., Page]) -> Page:
    return run_scripts(SCRIPT, "ColumnReader, SteppedLane, filledWhen, sees, wouldAccept, thresholdless")


@pytest.fixture
def write(write_lane: Callable[..., Any]) -> Write:
    """The lane of a run file, and the windows of its passes."""

    def write(prompt: list[int], **changes: Any) -> tuple[Any, list[Window]]:
        model = ScriptedModel([ANSWER], vocab_size=60, stop_token_ids=frozenset({STOP}), mask_token_id=MASK)
        engine = Watched(model, block_size=4)
        settings = DecodingSettings(**{"block_size": 4, "max_new_tokens": 40, "threshold": None, **changes})
        return write_lane(engine, "block_diffusion", prompt, settings), engine.windows

    return write


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("threshold", [None, 0.5])
@pytest.mark.parametrize("prompt", [[5], [5, 9, 4, 30], [5, 9, 4, 30, 17, 8, 33]], ids=len)
def test_columns_and_attention_are_those_of_the_windows(
    scripts: Page, write: Write, prompt: list[int], threshold: float | None, use_cache: bool
) -> None:
    lane, windows = write(prompt, threshold=threshold, use_cache=use_cache)
    found = scripts.evaluate(DRAWN, lane)
    assert len(found) == len(windows) > 2
    for record, window, drawn in zip(lane["records"], windows, found, strict=True):
        ids = window.ids_RQ[0].tolist()
        assert len(drawn["kinds"]) == len(ids)
        assert drawn["prefix"] == window.slots_RQ[0, 0].item() - 1
        assert drawn["sees"] == window.seen[0].tolist()
        for kind, token, read in zip(drawn["kinds"], drawn["tokens"], ids, strict=True):
            assert (kind == "mask") == (read == MASK)
            assert token is None or token == read
        drawn_proposals = [place for place in drawn["proposals"] if place is not None]
        assert drawn_proposals == list(range(len(record["rows"][0]["proposals"])))


def test_says_when_a_mask_was_filled(scripts: Page, write: Write) -> None:
    lane, _ = write([5, 9, 4, 30])
    found = [drawn for drawn in scripts.evaluate(DRAWN, lane) if drawn["moments"]]
    # Without a threshold each pass fills one mask of its block, and what is filled stays.
    assert [drawn["moments"].count("now") for drawn in found] == [1] * len(found)
    assert [drawn["moments"].count("before") for drawn in found[:4]] == [0, 1, 2, 3]
    assert found[0]["outcome"] == "1 of 4 masks filled; nothing is accepted before the block is full."
    assert found[3]["outcome"] == "1 of 1 mask filled: the block is full, 4 tokens accepted."
    assert scripts.evaluate("lane => thresholdless(lane)", lane).startswith("What another τ would have filled")
