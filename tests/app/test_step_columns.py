"""The columns and the attention that the page derives from a run file, against the windows that were forwarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app import assets
from mars.config import DecodingSettings
from mars.decoding.pair import Pair
from mars.scripted import ReadingModel, ScriptedRows
from mars.window import Window

if TYPE_CHECKING:
    import torch
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
Decode = Callable[..., tuple[Any, list[Window]]]

VOCABULARY, STOP, MASK = 60, 2, 59
PROMPT = [5, 9, 4, 30, 17]
SCRIPT = assets.script("step-states.js", "step-columns.js", "step-whatif.js")

COLUMNS = """lane => {
    const reader = new ColumnReader(lane);
    return lane.records.map((record, index) => {
        const { prefix, columns } = reader.at(index);
        return {
            prefix, kinds: columns.map(column => column.kind), tokens: columns.map(column => column.token),
            proposals: columns.map(column => column.proposal),
            sees: columns.map((_, query) => columns.map((_, key) => sees(columns, query, key))),
        };
    });
}"""
ACCEPTED = """([lane, threshold]) => lane.records.map(
    record => wouldAccept(lane, record, threshold ?? record.rows[0].threshold))"""


def truth(tokens: tuple[int, ...]) -> int:
    """The token after these."""
    return STOP if len(tokens) > 60 else 3 + (7 * tokens[-1] + 3 * tokens[-2] + len(tokens)) % 50


def clear(tokens: tuple[int, ...], masks_read: int) -> tuple[int, float]:
    """A model that is right at most depths, and less sure the more masks it has read."""
    for _ in range(masks_read):
        tokens = (*tokens, truth(tokens))
    wrong = masks_read and (len(tokens) + masks_read) % 5 == 0
    token = 3 + (truth(tokens) + 1) % 50 if wrong else truth(tokens)
    return token, max(0.3, 0.99 - 0.06 * masks_read * (len(tokens) % 4))


def hasty(tokens: tuple[int, ...], masks_read: int) -> tuple[int, float]:
    """A draft model, which is wrong now and then."""
    token, score = clear(tokens, masks_read)
    return (11, score) if len(tokens) % 7 == 0 else (token, score)


class Watched(ReadingModel):
    """A scripted model that keeps every window."""

    def __init__(self, reader: Any, windows: list[Window], **options: Any) -> None:
        super().__init__(reader, vocab_size=VOCABULARY, mask_token_id=MASK, stop_token_ids=frozenset({STOP}), **options)
        self.windows = windows

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> ScriptedRows:
        return WatchedRows(self, rows, capacity)


class WatchedRows(ScriptedRows):
    def forward(self, window: Window) -> torch.Tensor:
        self._model.windows.append(window)  # type: ignore[attr-defined]
        return super().forward(window)


@pytest.fixture(scope="module")
def scripts(run_scripts: Callable[..., Page]) -> Page:
    return run_scripts(SCRIPT, "ColumnReader, sees, wouldAccept")


@pytest.fixture
def decode(write_lane: Callable[..., Any]) -> Decode:
    """The lane of a run file, and the windows of its passes."""

    def decode(decoder: str, draft: bool = False, **changes: Any) -> tuple[Any, list[Window]]:
        windows: list[Window] = []
        engine: Any = Watched(clear, windows)
        if draft:
            engine = Pair(engine, Watched(hasty, windows))
        settings = DecodingSettings(**{"block_size": 4, "max_new_tokens": 40, "threshold": 0.7, **changes})
        return write_lane(engine, decoder, PROMPT, settings), windows

    return decode


CASES: dict[str, dict[str, Any]] = {
    "autoregressive": {"decoder": "autoregressive"},
    "sliding window": {"decoder": "sliding_window"},
    "sliding window, low threshold": {"decoder": "sliding_window", "threshold": 0.3, "block_size": 7},
    "one-token mode": {"decoder": "sliding_window", "threshold": None},
    "entropy, extra proposal": {
        "decoder": "sliding_window",
        "score": "entropy",
        "threshold": 1.0,
        "extra_proposal": True,
    },
    "block cached": {"decoder": "block_cached", "cache_block_size": 6},
    "exact, linear": {"decoder": "self_speculative", "layout": "linear"},
    "exact, quadratic": {"decoder": "self_speculative", "layout": "quadratic"},
    "exact, auto": {"decoder": "self_speculative", "layout": "auto"},
    "jacobi": {"decoder": "jacobi"},
    "speculative": {"decoder": "speculative", "draft": True},
    "speculative, continued": {"decoder": "speculative", "draft": True, "continuation": True},
    "speculative, continued, room for few": {
        "decoder": "speculative",
        "draft": True,
        "continuation": True,
        "max_new_tokens": 23,
        "draft_tokens": 6,
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_columns_and_attention_are_those_of_the_windows(scripts: Page, decode: Decode, case: dict[str, Any]) -> None:
    lane, windows = decode(**case)
    found = scripts.evaluate(COLUMNS, lane)
    assert len(found) == len(windows) > 5
    for record, window, drawn in zip(lane["records"], windows, found, strict=True):
        ids = window.ids_RQ[0].tolist()
        assert len(drawn["kinds"]) == len(ids)
        assert drawn["prefix"] == window.slots_RQ[0, 0].item() - 1
        assert drawn["sees"] == window.seen[0].tolist()
        for kind, token, read in zip(drawn["kinds"], drawn["tokens"], ids, strict=True):
            assert (kind in ("mask", "none")) == (read == MASK)
            assert token is None or token == read
        drawn_proposals = [place for place in drawn["proposals"] if place is not None]
        assert sorted(drawn_proposals) == list(range(len(record["rows"][0]["proposals"])))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_at_the_recorded_threshold_passes_would_accept_what_they_did(
    scripts: Page, decode: Decode, case: dict[str, Any]
) -> None:
    lane, _ = decode(**case)
    assert scripts.evaluate(ACCEPTED, [lane, None]) == [record["rows"][0]["accepted"] for record in lane["records"]]


def test_another_threshold_accepts_more_or_less(scripts: Page, decode: Decode) -> None:
    lane, _ = decode("sliding_window")
    rows = [record["rows"][0] for record in lane["records"]]
    for threshold in (0.0, 0.5, 0.9, 1.0):
        expected = []
        for row in rows:
            accepted = min(1, len(row["proposals"]))
            while 0 < accepted < len(row["proposals"]) and row["proposals"][accepted]["score"] >= threshold:
                if row["proposals"][accepted - 1]["token_id"] == STOP:
                    break
                accepted += 1
            expected.append(accepted)
        assert scripts.evaluate(ACCEPTED, [lane, threshold]) == expected
