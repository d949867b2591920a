"""Questions of several turns: what a later prompt holds, what does not fit, and counting without timing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from analysis.benchmarks.conversation import acceptance, check_fits, converse, longest_prompt
from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question
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
    found = converse(lane, questions, places)
    for question, turns in zip(questions, found, strict=True):
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


def test_fewer_turns_can_be_asked(lanes: Lanes, questions: list[Question]) -> None:
    [lane] = lanes("autoregressive")
    assert [len(turns) for turns in converse(lane, questions, 2, turns=1)] == [1, 1, 1, 1]


def test_counting_without_timing_counts_the_same(lanes: Lanes, questions: list[Question], tiny: Checkpoint) -> None:
    [lane] = lanes("sliding_window@0.05", 8)
    counted = converse(lane, questions, 1)
    found = acceptance(tiny, questions, lane.settings, "sliding_window", places=3)
    assert list(found) == ["mt_bench", "qa", "writing", "coding", "overall"]
    for part, turns in (("overall", counted), ("qa", counted[2:]), ("writing", counted[:1])):
        tokens = sum(len(turn.ids) for answered in turns for turn in answered)
        assert found[part] == tokens / sum(turn.passes for answered in turns for turn in answered)


def test_what_cannot_fit_is_refused_before_anything_is_decoded(questions: list[Question], tiny: Checkpoint) -> None:
    room = tiny.engine.context_length
    longest = longest_prompt(tiny, questions[0], 0)
    most = (room - longest) // 2
    check_fits(tiny, questions[:1], most)
    with pytest.raises(ValueError, match=r"question 81 \(writing\) does not fit: its 2 turns with answers of"):
        check_fits(tiny, questions[:1], most + 1)
