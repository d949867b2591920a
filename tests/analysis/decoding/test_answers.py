"""Answers and their costs, as the rows of the run store have them; free places for the next prompts."""

from collections.abc import Callable, Iterator

import pytest

from analysis.decoding import answers as module
from analysis.decoding.answers import Answer, answers
from analysis.decoding.timed import Stopwatch
from mars.config import DecodingSettings
from mars.decoding.pair import Pair
from mars.decoding.pool import shared_tokens
from mars.records import ForwardPass, Phase, Proposal, RowPass
from tests.scripted import ScriptedModel

REPLY = [5, 6, 7, 8, 9, 10, 11, 12, 13, 2]


def run(model: ScriptedModel, decoder: str, rows: int = 1, places: int = 4, **options: object) -> dict[int, Answer]:
    settings = DecodingSettings(**{"block_size": 4, "layout": "linear", "cache_block_size": 4, **options})
    engine = Pair(model, model) if decoder == "speculative" else model
    return dict(answers(engine, decoder, settings, [[3, 4]] * rows, places))


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window", "block_cached", "speculative"])
@pytest.mark.parametrize(("room", "reason"), [(6, "length"), (30, "stop")])
def test_an_answer_counts_its_tokens_and_passes(decoder: str, room: int, reason: str) -> None:
    [answer] = run(ScriptedModel([REPLY]), decoder, max_new_tokens=room).values()
    assert (list(answer.ids), answer.finish_reason) == (REPLY[:room], reason)
    assert sum(answer.acceptance_lengths) <= answer.passes
    lengths = sum(place * times for place, times in enumerate(answer.acceptance_lengths, 1))
    assert lengths == len(answer.ids) == answer.columns()["tokens"]


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window", "block_cached", "speculative"])
def test_waiting_prompts_take_free_places(decoder: str) -> None:
    """All seconds go to the rows; only decoders whose rows wait for each other decode in batches."""
    replies = [[5, 6, 7, 9, 9, 2], [2], [5, 2]]
    model = ScriptedModel(replies if decoder == "autoregressive" else [REPLY] * 3, seconds_per_pass=0.5)
    done = run(model, decoder, rows=3, places=2, threshold=None)
    assert max(len(call.ids) for call in model.calls) <= 2
    assert all(answer.seconds > 0 for answer in done.values())
    if decoder == "autoregressive":
        assert list(done) == [1, 2, 0]
        assert [list(done[number].ids) for number in range(3)] == replies
    else:
        assert [list(done[number].ids) for number in range(3)] == [REPLY] * 3


def test_layout_auto_is_chosen_pass_by_pass() -> None:
    [answer] = run(ScriptedModel([[5, 6, 7, 8] * 15]), "self_speculative", layout="auto", max_new_tokens=60).values()
    assert len(answer.acceptance_lengths) > 4, "more than the three drafts of masks: copies"


def test_prompts_that_do_not_fit_are_refused() -> None:
    model = ScriptedModel([REPLY], context_length=8)
    with pytest.raises(ValueError, match="at most 3 fit"):
        list(answers(model, "autoregressive", DecodingSettings(max_new_tokens=5), [[3] * 4], 1))


def record(phase: Phase, seconds: float, *rows: tuple[int, int, int]) -> ForwardPass:
    """Rows: number, start, accepted, of three proposals each."""
    proposals = (Proposal(5, 0.5, "clean"), Proposal(6, 0.25, "mask"), Proposal(7, 0.125, "draft"))
    parts = tuple(RowPass(row, at, proposals, accepted, None, "stop" if at else None) for row, at, accepted in rows)
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

        monkeypatch.setattr(module, "run", run)
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
    records = [(1.0, record("verify", 1.0, (0, 0, 1), (1, 0, 1))), (1.0, record("verify", 1.0, (0, 1, 1), (1, 1, 2)))]
    first, second = told(records, masks=True)
    assert (first.masks, second.masks) == (((1, 1, 0.25, 6), (2, 1, 0.25, 6)), ((1, 1, 0.25, 6),))
    assert [answer.masks for answer in told(records)] == [(), ()]


@pytest.mark.parametrize(("theirs", "count"), [([1, 2, 3], 3), ([1, 9, 3], 1), ([1, 2], 2), ([], 0)])
def test_texts_have_a_beginning_in_common(theirs: list[int], count: int) -> None:
    assert shared_tokens([1, 2, 3], theirs) == count
