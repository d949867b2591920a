"""The test double itself: what it proposes, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from mars.engine.window import Window
from tests.scripted import ReadingModel, ScriptedModel

MASK = 31


def window(ids: list[list[int]], slots: list[list[int]], keep: int, **options: object) -> Window:
    """A window that reaches as far as its slots; `positions` and `sees` make it a tree."""
    trees = {name: torch.tensor(options.pop(name)) for name in ("positions_RQ", "sees_RQQ") if name in options}
    extent = options.pop("extent", max(map(max, slots)) + 1)
    return Window(ids_RQ=torch.tensor(ids), slots_RQ=torch.tensor(slots), extent=extent, keep=keep, **trees, **options)


def best(logits: torch.Tensor) -> list[list[int]]:
    return logits.argmax(-1).tolist()


def test_it_recites_after_the_prompt_and_then_stops() -> None:
    rows = ScriptedModel([[5, 6]]).open(1, 20)
    assert rows.forward(window([[9, 9]], [[1, 2]], 0)).shape == (1, 0, 32)
    logits = rows.forward(window([[9, MASK, MASK]], [[3, 4, 5]], 3))
    assert best(logits) == [[5, 6, 2]]
    assert logits.softmax(-1).amax(-1).tolist() == [[1.0] * 3]


def test_the_script_knows_row_position_and_masks() -> None:
    asked = []

    def script(*question: int) -> tuple[int, float]:
        asked.append(question)
        return 5, 0.5

    rows = ScriptedModel(script).open(2, 20)
    logits = rows.forward(window([[9, 9, MASK], [0, 9, MASK]], [[1, 2, 3], [0, 1, 2]], 2))
    assert asked == [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)]
    assert logits.softmax(-1).amax(-1).flatten().tolist() == pytest.approx([0.5] * 4)
    assert (logits[..., MASK] == -torch.inf).all()


def test_a_reader_is_told_tokens_and_masks() -> None:
    asked = []

    def reader(*question: object) -> tuple[int, float]:
        asked.append(question)
        return 5, 0.5

    rows = ReadingModel(reader, vocab_size=16, mask_token_id=15).open(1, 20)
    rows.forward(window([[9]], [[1]], 0))
    assert rows.forward(window([[8, 15, 15]], [[2, 3, 4]], 3)).shape == (1, 3, 16)
    assert asked == [((9, 8), 0), ((9, 8), 1), ((9, 8), 2)]


def test_written_slots_replace_masks() -> None:
    rows = ScriptedModel(lambda row, position, masks: (5 + masks, 1.0)).open(1, 20)
    rows.forward(window([[9, MASK, MASK]], [[1, 2, 3]], 3))
    assert best(rows.forward(window([[6, MASK]], [[2, 3]], 2))) == [[5, 6]]


def test_branches_of_a_tree_read_their_path() -> None:
    """A root, one draft, and a mask behind each: both masks stand at their own depth."""
    asked = []

    def reader(*question: object) -> tuple[int, float]:
        asked.append(question)
        return 5, 0.5

    rows = ReadingModel(reader).open(1, 20)
    rows.forward(window([[9, 8]], [[1, 2]], 0))
    sees = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]
    tree = {"positions_RQ": [[2, 3, 3, 4]], "sees_RQQ": [[[bool(see) for see in row] for row in sees]]}
    rows.forward(window([[7, 6, MASK, MASK]], [[3, 4, 5, 6]], 4, **tree))
    assert asked == [((9, 8, 7), 0), ((9, 8, 7, 6), 0), ((9, 8, 7), 1), ((9, 8, 7, 6), 1)]


def test_a_tree_across_branches_is_refused() -> None:
    sees = [[[True, False, False], [True, True, False], [True, True, True]]]
    with pytest.raises(ValueError, match=r"row 0 reads positions \[0, 1, 1\] at position 1"):
        ScriptedModel([[5]]).open(1, 9).forward(
            window([[9, 8, 8]], [[1, 2, 3]], 3, positions_RQ=[[0, 1, 1]], sees_RQQ=sees)
        )


def test_the_clock_counts_calls() -> None:
    model = ScriptedModel([[5]], seconds_per_pass=0.5)
    with model.clock() as clock:
        model.open(1, 9).forward(window([[9]], [[1]], 1))
    assert clock.seconds == 0.5
    assert len(model.calls) == 1
    assert (model.calls[0].ids, model.calls[0].slots, model.calls[0].keep) == ([[9]], [[1]], 1)


@pytest.mark.parametrize(
    ("ids", "slots", "options", "sentence"),
    [
        ([[9, 9]], [[1, 3]], {}, "row 0 reads slot 2, which was never written"),
        ([[9, MASK, 9]], [[1, 2, 3]], {}, "reads a real token behind a mask at position 1"),
        ([[9]], [[1]], {"extent": 1}, "extent must be > 1 and <= 10, got 1"),
        ([[9]], [[10]], {}, "extent must be > 10 and <= 10, got 11"),
        ([[9], [9]], [[1], [1]], {}, "the window reaches row 1 of 1"),
        ([[9]], [[1]], {"first": 1}, "the window reaches row 1 of 1"),
    ],
)
def test_it_refuses_what_real_models_let_pass(ids: list, slots: list, options: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ScriptedModel([[5]]).open(1, 9).forward(window(ids, slots, 1, **options))


def test_a_probability_must_make_its_token_likeliest() -> None:
    with pytest.raises(ValueError, match="a scripted probability must be"):
        ScriptedModel(lambda *_: (5, 0.01)).open(1, 9).forward(window([[9]], [[1]], 1))
