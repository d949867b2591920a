"""The test double itself: what it proposes, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from mars.scripted import ScriptedModel


def test_it_recites_after_the_prompt_and_then_stops() -> None:
    rows = ScriptedModel([[5, 6]]).open(1, 20)
    rows.forward([[9, 9]], [[1, 2]], 0)
    logits = rows.forward([[9, 31, 31]], [[3, 4, 5]], 3)
    assert logits.argmax(-1).tolist() == [[5, 6, 2]]
    assert logits.softmax(-1).amax(-1).tolist() == [[1.0] * 3]


def test_the_script_is_told_row_position_and_masks_read() -> None:
    asked = []

    def script(*question: int) -> tuple[int, float]:
        asked.append(question)
        return 5, 0.5

    rows = ScriptedModel(script).open(2, 20)
    logits = rows.forward([[9, 9, 31], [0, 9, 31]], [[1, 2, 3], [0, 1, 2]], 2)
    assert asked == [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)]
    assert logits.softmax(-1).amax(-1).flatten().tolist() == pytest.approx([0.5] * 4)
    assert (logits[..., 31] == -torch.inf).all()


def test_written_slots_replace_masks() -> None:
    rows = ScriptedModel(lambda row, position, masks: (5 + masks, 1.0)).open(1, 20)
    rows.forward([[9, 31, 31]], [[1, 2, 3]], 3)
    assert rows.forward([[6, 31]], [[2, 3]], 2).argmax(-1).tolist() == [[5, 6]]


def test_dropped_rows_keep_their_numbers() -> None:
    rows = ScriptedModel([[5], [6], [7]]).open(3, 20)
    rows.forward([[9]] * 3, [[1]] * 3, 1)
    rows.keep([2])
    assert rows.forward([[9]], [[1]], 1).argmax(-1).tolist() == [[7]]


def test_the_clock_counts_calls() -> None:
    model = ScriptedModel([[5]], seconds_per_pass=0.5)
    with model.clock() as clock:
        model.open(1, 9).forward([[9]], [[1]], 1)
    assert clock.seconds == 0.5
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    ("ids", "slots", "sentence"),
    [
        ([[9, 9]], [[1, 3]], "reads slot 2, which was never written"),
        ([[9, 31, 9]], [[1, 2, 3]], "reads a real token behind a mask"),
        ([[9]], [[0]], "asks at slot 0"),
        ([[9]], [[10]], "asks at slot 10, outside of 1 to 9"),
        ([[9], [9]], [[1], [1]], "forward needs 1 rows, got 2"),
    ],
)
def test_it_refuses_what_a_real_model_would_let_pass(ids: list, slots: list, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ScriptedModel([[5]]).open(1, 9).forward(ids, slots, 1)


def test_a_probability_must_make_its_token_the_most_probable() -> None:
    with pytest.raises(ValueError, match="a scripted probability must be"):
        ScriptedModel(lambda *_: (5, 0.01)).open(1, 9).forward([[9]], [[1]], 1)
