"""Questions of several turns: what a later prompt holds, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.benchmarks.lanes import BenchmarkLane, check_fits, converse, whole
from analysis.benchmarks.questions import Question
from analysis.decoding.answers import Answer
from mars.checkpoint import Checkpoint
from mars.decoding import DECODERS
from mars.metrics import Tally, output_ids

Lanes = Callable[..., list[BenchmarkLane]]


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window@0.05", "self_speculative/linear"])
@pytest.mark.parametrize("places", [1, 3])
def test_a_later_prompt_holds_the_decoders_own_answer(
    decoder: str, places: int, lanes: Lanes, questions: list[Question], tiny: Checkpoint
) -> None:
    """The slow twin: turn by turn, question by question, through the decoder itself."""
    [lane] = lanes(decoder)
    found = dict(converse(lane, questions, places))
    assert len(found) == len(questions)
    for question, turns in ((questions[place], turns) for place, turns in found.items()):
        said: list[dict[str, str]] = []
        for turn, answer in zip(question.turns, turns, strict=True):
            said.append({"role": "user", "content": turn})
            decode = DECODERS[lane.spec.decoder]
            records = list(decode(tiny.engine, [tiny.encode_chat(said)], lane.settings))
            tally = Tally.of(records)
            assert list(answer.ids) == output_ids(records)
            assert answer.passes == tally.passes == sum(answer.acceptance_lengths)
            assert answer.text == tiny.decode(answer.ids)
            said.append({"role": "assistant", "content": answer.text.strip()})


def test_a_question_is_there_as_soon_as_it_has_all_its_answers(lanes: Lanes, questions: list[Question]) -> None:
    [lane] = lanes("autoregressive")
    found = list(converse(lane, questions, 2))
    assert sorted(place for place, _ in found) == [0, 1, 2, 3]
    assert {place for place, _ in found[:2]} == {2, 3}, "those of one turn"
    assert [len(turns) for _, turns in converse(lane, [each.first_turn for each in questions], 2)] == [1, 1, 1, 1]


def test_all_turns_of_a_question_are_one_answer() -> None:
    first = Answer(
        ids=(4, 5),
        text="a",
        passes=1,
        seconds=1.0,
        model_seconds=0.5,
        finish_reason="length",
        acceptance_lengths=(0, 1),
    )
    second = Answer(
        ids=(6,), text="b", passes=1, seconds=2.0, model_seconds=1.0, finish_reason="stop", acceptance_lengths=(1,)
    )
    both = whole((first, second))
    assert (both.ids, both.text, both.passes, both.seconds) == ((4, 5, 6), "a\n\nb", 2, 3.0)
    assert (both.finish_reason, both.acceptance_lengths) == ("stop", (1, 1))


def test_what_cannot_fit_is_refused_before_anything_is_decoded(questions: list[Question], tiny: Checkpoint) -> None:
    room = tiny.engine.context_length
    turns = zip(("user", "assistant", "user"), (questions[0].turns[0], "", questions[0].turns[1]), strict=True)
    longest = len(tiny.encode_chat([{"role": role, "content": text} for role, text in turns]))
    most = (room - longest) // 2
    check_fits(tiny, questions[:1], most)
    with pytest.raises(ValueError, match=r"question 81 \(writing\) does not fit: its 2 turns with answers of"):
        check_fits(tiny, questions[:1], most + 1)
