"""Answers with stop strings: cut at their end, counted to their end, and their places free for the next prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from analysis.decoding import answers as module
from analysis.decoding.answers import Answer, answers
from analysis.decoding.timed import Stopwatch
from mars.config import DecodingSettings
from mars.decoding import DECODERS, METHODS
from mars.decoding.pair import Pair
from mars.decoding.pool import shared_tokens
from mars.records import ForwardPass, Phase, Proposal, RowPass
from tests.scripted import ScriptedModel

REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, 2]
IN_BATCHES = ("block_cached", "speculative")


def ends_at(*tokens: int) -> Callable[[], Callable[[Sequence[int]], bool]]:
    return lambda: lambda ids: ids[-1] in tokens


def run(
    model: ScriptedModel, decoder: str, rows: int = 1, places: int = 4, end: int = 8, **options: object
) -> list[tuple[int, Answer]]:
    settings = DecodingSettings(**{"block_size": 4, "layout": "linear", "cache_block_size": 4, **options})
    engine = Pair(model, model) if decoder == "speculative" else model
    return list(answers(engine, decoder, settings, [[3, 4]] * rows, places, ends_at(end)))


@pytest.mark.parametrize("decoder", [name for name in DECODERS if name in METHODS or name in IN_BATCHES])
@pytest.mark.parametrize("end", [5, 6, 8, 13])
def test_an_answer_ends_with_the_completing_token(decoder: str, end: int) -> None:
    [(number, answer)] = run(ScriptedModel([REPLY]), decoder, end=end, block_size=8)
    expected = REPLY[: REPLY.index(end) + 1]
    assert (number, list(answer.ids), answer.finish_reason) == (0, expected, "stop")
    assert sum(answer.acceptance_lengths) == answer.passes
    assert sum((place + 1) * times for place, times in enumerate(answer.acceptance_lengths)) == len(expected)


def test_tokens_accepted_behind_the_end_are_not_counted() -> None:
    [(_, answer)] = run(ScriptedModel([REPLY]), "sliding_window", block_size=8)
    assert answer.acceptance_lengths == (0, 0, 0, 1)
    assert answer.passes == 1


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window", "block_cached"])
@pytest.mark.parametrize(("room", "reason", "tokens"), [(6, "length", 6), (30, "stop", 10)])
def test_without_a_stop_string_model_or_room_ends(decoder: str, room: int, reason: str, tokens: int) -> None:
    [(_, answer)] = run(ScriptedModel([REPLY]), decoder, end=30, max_new_tokens=room)
    assert (list(answer.ids), answer.finish_reason) == (REPLY[:tokens], reason)


def test_no_pass_computes_what_would_be_cut() -> None:
    model = ScriptedModel([REPLY])
    run(model, "autoregressive", end=6)
    assert len(model.calls) == 1 + 2  # the prompt, then two tokens


def test_layout_auto_is_chosen_pass_by_pass() -> None:
    [(_, answer)] = run(
        ScriptedModel([[5, 6, 7, 8] * 15]), "self_speculative", end=30, layout="auto", max_new_tokens=60
    )
    assert len(answer.acceptance_lengths) > 4, "more than the three drafts of masks: copies"


def test_a_place_is_free_once_an_answer_ends() -> None:
    replies = [[5, 6, 7, 9, 9, 8], [8], [5, 8]]
    model = ScriptedModel(replies)
    done = run(model, "autoregressive", rows=3, places=2)
    assert [number for number, _ in done] == [1, 2, 0]
    assert [list(answer.ids) for _, answer in sorted(done)] == replies
    assert max(len(call.ids) for call in model.calls) == 2


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window", "block_cached", "speculative"])
def test_seconds_of_answers_are_those_of_passes(decoder: str) -> None:
    model = ScriptedModel([[5, 8], [5, 6, 7, 9, 10, 11, 8], [8]], seconds_per_pass=0.5)
    done = run(model, decoder, rows=3, places=2, threshold=None)
    assert sorted(number for number, _ in done) == [0, 1, 2]
    assert sum(answer.model_seconds for _, answer in done) == pytest.approx(0.5 * len(model.calls))
    assert all(answer.seconds > 0 for _, answer in done)


def test_a_waiting_batch_goes_on_until_complete() -> None:
    replies = [[8, 9, 9, 9, 9], [5, 6, 7, 9, 8], [5, 8]]
    done = dict(run(ScriptedModel(replies), "block_cached", rows=2, places=2, threshold=None))
    assert [list(done[number].ids) for number in (0, 1)] == [[8], [5, 6, 7, 9, 8]]
    assert (done[0].passes, done[1].passes) == (1, 5)


def test_prompts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 3 fit"):
        list(
            answers(
                ScriptedModel([REPLY], context_length=8),
                "autoregressive",
                DecodingSettings(max_new_tokens=5),
                [[3] * 4],
                1,
                ends_at(8),
            )
        )


def record(phase: Phase, seconds: float, *rows: tuple[int, int, int]) -> ForwardPass:
    """Rows: number, start, accepted, of three proposals each."""
    proposals = (Proposal(5, 0.5, "clean"), Proposal(6, 0.25, "mask"), Proposal(7, 0.125, "draft"))
    parts = tuple(
        RowPass(row, start, proposals, accepted, None, "stop" if start else None) for row, start, accepted in rows
    )
    return ForwardPass(0, phase, seconds, 1, parts)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Answer]]:
    """The answers of two rows to these records; each arrives as many seconds after the one before as it says."""

    def of(records: list[tuple[float, ForwardPass]], *, masks: bool = False) -> list[Answer]:
        clock = 0.0

        def run(*_: object) -> Iterator[ForwardPass]:
            nonlocal clock
            for seconds, each in records:
                clock += seconds
                yield each

        monkeypatch.setattr(module, "_joining", run)
        monkeypatch.setattr(module.Stopwatch, "of", lambda _: Stopwatch(None, lambda: clock))
        model = ScriptedModel([REPLY])
        found = dict(answers(model, "sliding_window", DecodingSettings(), [[3], [3]], 2, masks=masks))
        return [found[0], found[1]]

    return of


def test_rows_of_a_pass_share_its_seconds(told: Callable[..., list[Answer]]) -> None:
    first, second = told(
        [
            (1.0, record("prefill", 0.5, (0, 0, 0), (1, 0, 0))),
            (4.0, record("decode", 2.0, (0, 0, 1), (1, 0, 2))),
            (3.0, record("decode", 1.0, (1, 2, 1))),
            (2.0, record("decode", 1.5, (0, 1, 1))),
        ]
    )
    assert (first.seconds, second.seconds) == (0.5 + 2 + 2, 0.5 + 2 + 3)
    assert (first.model_seconds, second.model_seconds) == (0.25 + 1 + 1.5, 0.25 + 1 + 1)
    assert (len(first.ids), len(second.ids)) == (2, 3)
    assert (first.passes, second.passes) == (2, 2)
    assert (first.acceptance_lengths, second.acceptance_lengths) == ((2,), (1, 1))


@pytest.mark.parametrize(("phase", "passes"), [("draft", 1), ("commit", 1), ("denoise", 3)])
def test_passes_without_tokens_count_where_they_fill_blocks(
    phase: Phase, passes: int, told: Callable[..., list[Answer]]
) -> None:
    records = [(1.0, record(phase, 1.0, (0, 0, 0), (1, 0, 0)))] * 2
    for answer in told([*records, (1.0, record("decode", 1.0, (0, 1, 2), (1, 1, 2)))]):
        assert (answer.passes, answer.acceptance_lengths) == (passes, (0, 1))


def test_only_rejected_proposals_of_masks_are_kept(told: Callable[..., list[Answer]]) -> None:
    records = [
        (1.0, record("verify", 1.0, (0, 0, 1), (1, 0, 1))),
        (1.0, record("verify", 1.0, (0, 1, 1), (1, 1, 2))),
    ]
    first, second = told(records, masks=True)
    assert (first.masks, second.masks) == (((1, 1, 0.25, 6), (2, 1, 0.25, 6)), ((1, 1, 0.25, 6),))
    assert [answer.masks for answer in told(records)] == [(), ()]


def test_the_columns_of_a_row_count_the_tokens() -> None:
    [(_, answer)] = run(ScriptedModel([REPLY]), "autoregressive")
    assert answer.columns()["tokens"] == len(answer.ids) == 4
    assert answer.columns()["acceptance_lengths"] == [4]


@pytest.mark.parametrize(("theirs", "count"), [([1, 2, 3], 3), ([1, 9, 3], 1), ([1, 2], 2), ([], 0)])
def test_texts_have_a_beginning_in_common(theirs: list[int], count: int) -> None:
    assert shared_tokens([1, 2, 3], theirs) == count
