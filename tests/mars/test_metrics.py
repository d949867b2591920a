"""Folds over records, on numbers small enough to check by hand."""

from mars.metrics import Tally, output_ids
from mars.records import FinishReason, ForwardPass, Phase, Proposal, RowPass


def record(
    index: int, phase: Phase, seconds: float, *rows: tuple[int, int, list[int], int], reason: FinishReason | None = None
) -> ForwardPass:
    parts = tuple(
        RowPass(row, start, tuple(Proposal(token, 0.9, "mask") for token in tokens), accepted, 0.5, reason)
        for row, start, tokens, accepted in rows
    )
    return ForwardPass(index, phase, seconds, 10, parts)


RECORDS = [
    record(0, "prefill", 0.5, (0, 0, [], 0), (1, 0, [], 0)),
    record(1, "decode", 0.25, (0, 0, [5, 6, 7], 3), (1, 0, [8, 9, 10], 1)),
    record(2, "draft", 0.25, (0, 3, [11], 0)),
    record(3, "verify", 0.25, (0, 3, [12, 13], 1)),
    record(4, "commit", 0.25, (0, 4, [], 0)),
    record(5, "decode", 0.5, (0, 4, [14, 2], 2), reason="stop"),
]

DENOISED = [
    record(0, "denoise", 0.5, (0, 0, [5, 6], 0), (1, 0, [7, 8], 2)),
    record(1, "denoise", 0.5, (0, 0, [5, 6], 2)),
]


def test_overall() -> None:
    tally = Tally.of(RECORDS)
    assert (tally.tokens, tally.passes, tally.query_tokens, tally.seconds) == (7, 4, 60, 2.0)
    assert tally.tokens_per_forward == 7 / 4
    assert tally.tokens_per_second == 3.5
    assert tally.acceptance_lengths == {3: 1, 1: 2, 2: 1}


def test_rows_count_the_passes_they_took_part_in() -> None:
    rows = Tally.of(RECORDS).rows
    assert (rows[0].tokens, rows[0].passes, rows[0].seconds, rows[0].finish_reason) == (6, 3, 2.0, "stop")
    assert (rows[1].tokens, rows[1].passes, rows[1].seconds, rows[1].finish_reason) == (1, 1, 0.75, None)
    assert (rows[0].tokens_per_forward, rows[1].tokens_per_forward) == (2.0, 1.0)
    assert rows[0].tokens_per_second == 3.0


def test_passes_that_leave_masks_count() -> None:
    tally = Tally.of(DENOISED)
    assert (tally.tokens, tally.passes, tally.tokens_per_forward) == (4, 3, 4 / 3)
    assert (tally.rows[0].passes, tally.rows[1].passes) == (2, 1)
    assert tally.acceptance_lengths == {2: 2}


def test_nothing_yet_is_zero() -> None:
    tally = Tally.of(RECORDS[:1])
    assert (tally.tokens, tally.tokens_per_forward, Tally().tokens_per_second) == (0, 0.0, 0.0)


def test_output_is_the_accepted_prefixes_of_one_row() -> None:
    assert output_ids(RECORDS) == [5, 6, 7, 12, 14, 2]
    assert output_ids(RECORDS, row=1) == [8]
    assert output_ids(RECORDS, row=2) == []
