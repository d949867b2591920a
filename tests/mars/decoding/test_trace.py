"""What a record says of its pass, against what the engine was given and what came back."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch

from mars import decoders
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.decoding.service import Service
from mars.engine.window import Window
from mars.records import ForwardPass, RowPass, Trace, from_json, to_json
from tests.mars.test_reference import CALIBRATION, RULED
from tests.mars.test_reference import CASES as COMPARED
from tests.readers import STOP, clear, hasty
from tests.scripted import ReadingModel

VOCABULARY, MASK = 60, 59
PROMPTS = [[5, 9, 4, 30, 17], [8], [3, 12, 6, 7, 10, 11, 20, 21, 22]]

Seen = list[tuple[Window, torch.Tensor]]
CASES = COMPARED | RULED


def watched(engine: Any, seen: Seen) -> Any:
    """The engine, which keeps every window in `seen` and what it answered."""
    opened = engine.open

    def open_rows(*arguments: Any, **options: Any) -> Any:
        rows = opened(*arguments, **options)
        forward = rows.forward

        def keep(window: Window) -> torch.Tensor:
            logits = forward(window)
            seen.append((window, logits.clone()))
            return logits

        rows.forward = keep
        return rows

    engine.open = open_rows
    return engine


def reading(reader: Any) -> ReadingModel:
    known = {"vocab_size": VOCABULARY, "mask_token_id": MASK, "stop_token_ids": frozenset({STOP})}
    return ReadingModel(reader, **known, calibration=CALIBRATION)


@cache
def decode(case: str, prompts: int = len(PROMPTS), *, trace: bool = True) -> tuple[list[ForwardPass], Seen]:
    """The records of a case on the first prompts, and every window with the predictions of its pass."""
    name, seen = case.partition(",")[0], list[tuple[Window, torch.Tensor]]()
    settings = DecodingSettings(**{"block_size": 4, "max_new_tokens": 40, "threshold": 0.7, **CASES[case]})
    engine: Any = watched(reading(clear), seen)
    if decoders.TABLE[name].draft:
        engine = Pair(engine, watched(reading(hasty), seen))
    control = Control(settings.threshold, settings.score, trace=trace)
    return list(DECODERS[name](engine, PROMPTS[:prompts], settings, control)), seen


def traces(record: ForwardPass) -> Iterator[tuple[RowPass, Trace]]:
    for row in record.rows:
        assert row.trace is not None
        yield row, row.trace


def given(window: Window, place: int, trace: Trace) -> bool:
    """Whether the model was given exactly this in row `place`."""
    own = window.slots_RQ[place] > 0
    if trace.ids != tuple(window.ids_RQ[place][own].tolist()):
        return False
    sees = window.seen[place][own][:, own]
    drawn = torch.tensor([[key in trace.sees(query) for key in range(len(sees))] for query in range(len(sees))])
    return (
        trace.positions == tuple(window.positions[place][own].tolist())
        and trace.cached == int(window.slots_RQ[place][own][0]) - 1
        and torch.equal(sees, drawn)
    )


@pytest.mark.parametrize("case", CASES)
def test_columns_are_what_the_engine_was_given(case: str) -> None:
    records, seen = decode(case, 1)
    assert len(records) == len(seen) > 5
    for record, (window, logits) in zip(records, seen, strict=True):
        [(row, trace)] = traces(record)
        assert given(window, 0, trace)
        for read, token_id in zip(trace.reads, trace.ids, strict=True):
            assert (read == "mask") <= (token_id == MASK)
            assert (read in ("clean", "draft", "copy", "random")) <= (token_id != MASK)
        assert record.query_tokens == len(trace.ids)
        # Each proposal is the prediction of its column, and read what it says.
        for proposal, column in zip(row.proposals, trace.columns, strict=True):
            predicted = logits[0, column - len(trace.ids)].argmax()
            draft = case.startswith("relaxed") and proposal.token_id in trace.ids  # in the place of the best one
            assert proposal.token_id == int(predicted) or draft
            assert trace.reads[column] == proposal.source


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_pass_have_their_own_columns(case: str) -> None:
    records, seen = decode(case)
    for record, (window, _) in zip(records, seen, strict=True):
        for _, trace in traces(record):
            assert any(given(window, place, trace) for place in range(window.rows))
        assert sum(len(trace.ids) for _, trace in traces(record)) == record.query_tokens, "without padding"


@pytest.mark.parametrize(
    ("case", "others"), [("prompt_lookup", set()), ("self_speculative, lookup", {"draft", "mask"})]
)
def test_copies_are_told_from_what_masks_proposed(case: str, others: set[str]) -> None:
    records, _ = decode(case, 1)
    reads = {read for record in records for _, trace in traces(record) for read in trace.reads}
    assert reads == {"clean", "copy", *others}
    sources = {proposal.source for record in records for proposal in record.rows[0].proposals}
    assert sources <= reads


def test_rows_of_several_methods_that_share_a_pass() -> None:
    seen: Seen = []
    service = Service(watched(reading(clear), seen))
    asked: dict[str, dict[str, Any]] = {
        "autoregressive": {},
        "sliding_window": {},
        "self_speculative": {"layout": "quadratic"},
        "jacobi": {},
        "prompt_lookup": {},
    }
    streams = []
    for (name, changes), prompt in zip(asked.items(), [*PROMPTS, [8, 9], [8, 9, 8, 9]], strict=True):
        settings = DecodingSettings(**{"block_size": 4, "max_new_tokens": 20, "threshold": 0.7, **changes})
        streams.append(service.submit(name, prompt, settings, Control(0.7, trace=True)))
    records = [record for stream in streams for record in stream]
    assert len({len(record.rows[0].trace.ids) for record in records if record.rows[0].trace}) > 4
    for record in records:
        [(_, trace)] = traces(record)
        assert any(given(window, place, trace) for window, _ in seen for place in range(window.rows))


def met(score: float, row: RowPass, name: str) -> bool:
    assert row.threshold is not None
    return score <= row.threshold if name == "entropy" else score >= row.threshold


@pytest.mark.parametrize("case", CASES)
def test_reasons_agree_with_the_rule_of_acceptance(case: str) -> None:
    records, _ = decode(case)
    score = CASES[case].get("score", "probability")
    found = set()
    for record in records:
        for row, trace in traces(record):
            found |= set(trace.reasons)
            for place, (proposal, reason) in enumerate(zip(row.proposals, trace.reasons, strict=True)):
                check = CHECKS[reason]
                assert check(record, row, place, proposal.score, score), (case, record.index, place, reason)
    assert found <= EXPECTED.get(case.partition(",")[0], set(CHECKS))
    assert len(found) > 1 or case.startswith("autoregressive") or "one token" in case


def _accepted(place: int, row: RowPass) -> bool:
    return place < row.accepted


def _right(record: ForwardPass, row: RowPass, place: int, *_: Any) -> bool:
    """All drafts up to its column are the proposals before them."""
    assert row.trace is not None
    read = [row.trace.ids[column] for column in row.trace.columns[1 : place + 1]]
    return read == [proposal.token_id for proposal in row.proposals[:place]]


CHECKS: dict[str, Callable[..., bool]] = {
    "first": lambda record, row, place, *_: place == 0 and row.accepted > 0,
    "right": lambda record, row, place, *_: _accepted(place, row) and _right(record, row, place),
    "wrong draft": lambda record, row, place, *_: not _accepted(place, row) and not _right(record, row, place),
    "met": lambda record, row, place, value, name: _accepted(place, row) and met(value, row, name),
    "rule": lambda record, row, place, value, name: met(value, row, name) != _accepted(place, row),
    "below": lambda record, row, place, value, name: (
        not met(value, row, name)
        and place == (row.trace.reasons.count("kept") if record.phase == "draft" else row.accepted)
    ),
    "behind": lambda record, row, place, *_: row.trace.reasons[place - 1] in ("below", "rule", "behind"),
    "ended": lambda record, row, place, *_: STOP in [one.token_id for one in row.proposals[:place]],
    "kept": lambda record, row, place, *_: not _accepted(place, row) and row.finish_reason is None,
    "unsure": lambda record, row, place, *_: row.proposals[place].source == "mask" and not _accepted(place, row),
}
"""What each reason says of its proposal; a new decoder needs no entry below, unless it has a reason of its own."""
EXPECTED: dict[str, set[str]] = {
    "autoregressive": {"first"},
    **{key: {"first", "met", "below", "behind", "ended"} for key in ("sliding_window", "block_cached")},
    **{key: {"first", "right", "wrong draft", "kept", "unsure", "ended"} for key in ("self_speculative", "relaxed")},
    "jacobi": {"first", "right", "kept", "ended"},
    "prompt_lookup": {"first", "right", "wrong draft", "ended"},
    "speculative": {"first", "right", "wrong draft", "met", "below", "behind", "kept", "ended"},
}


@pytest.mark.parametrize("case", CASES)
def test_kept_proposals_are_the_drafts_that_follow(case: str) -> None:
    records, _ = decode(case, 1)
    for record, after in pairwise(records):
        [(row, trace)], [(_, then)] = traces(record), traces(after)
        kept = [one.token_id for one, why in zip(row.proposals, trace.reasons, strict=True) if why == "kept"]
        read = [token_id for token_id, kind in zip(then.ids, then.reads, strict=True) if kind == "draft"]
        assert kept[: len(read)] == read[: len(kept)] or record.phase == "draft"
        if record.phase == "draft":
            assert not kept or kept[-1] in read


@pytest.mark.parametrize("case", CASES)
def test_a_trace_changes_nothing_and_is_read_again(case: str) -> None:
    (plain, _), (records, _) = decode(case, trace=False), decode(case)
    assert [from_json(to_json(record)) for record in records] == records
    bare = [replace(one, seconds=0.0, rows=tuple(replace(row, trace=None) for row in one.rows)) for one in records]
    assert bare == [replace(one, seconds=0.0) for one in plain]
