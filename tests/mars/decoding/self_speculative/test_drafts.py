"""Which proposals become the drafts of the next pass, what they gain, and what a miss costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.phrases import Next, Phrases
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

STOP, MASK = 2, 31
Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]
Read = Callable[..., list]
LAYOUTS = pytest.mark.parametrize("layout", ["linear", "quadratic"])


@pytest.mark.parametrize("score", ["margin", "entropy"])
@LAYOUTS
def test_drafts_do_not_depend_on_the_score(run: Run, unsure: Make, seen: Read, layout: str, score: str) -> None:
    """Sureness is a probability even where the records say something else."""
    chances = [((1.0, 0.9, 0.51, 0.49), (0.5, 0.99, 0.9, 0.3)), ((1.0, 0.51, 1.0, 0.6), (1.0, 0.6, 0.9, 0.3))]
    for probabilities in chances:
        plain, other = unsure(*probabilities), unsure(*probabilities)
        records = run(plain, [[3, 4], [5]], layout=layout, block_size=4)
        scored = run(other, [[3, 4], [5]], layout=layout, block_size=4, score=score)
        assert plain.calls == other.calls
        assert seen(records) == seen(scored)
        assert records[1].rows[0].proposals[1].score != scored[1].rows[0].proposals[1].score


def test_after_a_miss_linear_has_no_drafts(run: Run, wrong_at: Make, windows: Read, seen: Read, sources: Read) -> None:
    """What the columns behind the wrong draft for position 4 say is shown and not used, though right by luck."""
    model = wrong_at(4)
    records = run(model, [[3, 4]], layout="linear")
    assert seen(records)[1:5] == [
        (1, [6, 7, 8, 20, 10], 3),
        (4, [9, 10, 11], 1),
        (5, [10, 11, 12], 1),
        (6, [11, 12, 13, STOP, STOP], 3),
    ]
    assert windows(model)[1:5] == [
        [5, 6, 7, MASK, MASK],
        [8, 20, 10, MASK, MASK],
        [9, MASK, MASK],
        [10, 11, 12, MASK, MASK],
    ]
    assert sources(records)[2:5] == [
        ["clean", "draft", "draft", "mask", "mask"],
        ["clean", "draft", "draft"],
        ["clean", "mask", "mask"],
    ]


def test_a_row_that_missed_waits_for_no_other(run: Run, reply: list[int]) -> None:
    """Beside it a row goes on with drafts, and both write what they write alone."""

    def script(row: int, position: int, masks: int) -> tuple[int, float]:
        token = reply[position] if position < len(reply) else STOP
        return (20 if masks and row == 0 and position == 4 else token), 0.9

    model = ScriptedModel(script)
    records = run(model, [[3, 4], [3, 4]], layout="linear")
    third = [call.ids for call in model.calls if call.keep][3]
    assert third == [[0, 0, 9, MASK, MASK], [11, 12, 13, MASK, MASK]]
    assert [output_ids(records, row) for row in range(2)] == [reply] * 2


PHRASES = Phrases({(token_id,): Next(token_id + 1, 1.0, 99) for token_id in range(5, 13)})


@pytest.mark.parametrize("layout", ["lookup", "auto"])
def test_phrases_are_drafts_that_need_no_mask(run: Run, reply: list[int], layout: str) -> None:
    """Masks are wrong and unsure, and nothing was written before that could be copied."""

    def answer(row: int, position: int, masks: int) -> tuple[int, float]:
        return (20, 0.05) if masks else ((*reply, STOP)[min(position, len(reply))], 0.9)

    plain, helped = ScriptedModel(answer), ScriptedModel(answer, phrases=PHRASES)
    without, records = (run(model, [[3, 4]], layout=layout, block_size=4) for model in (plain, helped))
    assert output_ids(records) == output_ids(without) == reply
    assert len(records) < len(without) == len(reply) + 1
    read = {proposal.source for record in records for row in record.rows for proposal in row.proposals[: row.accepted]}
    assert read == {"clean", "copy"}


@pytest.mark.parametrize(("decoder", "options"), [("prompt_lookup", {}), ("self_speculative", {"layout": "tree"})])
def test_phrases_need_copies_and_masks(wrong_at: Make, decoder: str, options: dict[str, str]) -> None:
    models = wrong_at(), wrong_at()
    models[0].phrases = Phrases({(token_id,): Next(20, 1.0, 99) for token_id in range(32)})
    settings = DecodingSettings(block_size=4, max_new_tokens=20, **options)
    with_phrases, without = (list(DECODERS[decoder](model, [[3, 5, 6, 5, 6]], settings)) for model in models)
    assert models[0].calls == models[1].calls
    assert output_ids(with_phrases) == output_ids(without)
