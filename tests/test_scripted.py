"""The test double itself: what it proposes, and what it refuses."""

from typing import Any

import pytest
import torch

from mars.engine.window import Window
from tests.scripted import ScriptedModel

MASK = 31


def window(ids: list[list[int]], slots: list[list[int]], keep: int, **options: object) -> Window:
    """A window that reaches as far as its slots; `positions` and `sees` make it a tree."""
    kinds = {"positions_RQ": torch.long, "sees_RQQ": torch.bool}
    trees = {name: torch.tensor(options.pop(name), dtype=kind) for name, kind in kinds.items() if name in options}
    extent = options.pop("extent", max(map(max, slots)) + 1)
    return Window(ids_RQ=torch.tensor(ids), slots_RQ=torch.tensor(slots), extent=extent, keep=keep, **trees, **options)


ACROSS = {"positions_RQ": [[0, 1, 1]], "sees_RQQ": [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]}  # a column sees another branch


@pytest.mark.parametrize(
    ("ids", "slots", "options", "sentence"),
    [
        ([[9, 9]], [[1, 3]], {}, "row 0 reads slot 2, which was never written"),
        ([[9, MASK, 9]], [[1, 2, 3]], {}, "reads a real token behind a mask at position 1"),
        ([[9]], [[1]], {"extent": 1}, "extent must be > 1 and <= 10, got 1"),
        ([[9]], [[10]], {}, "extent must be > 10 and <= 10, got 11"),
        ([[9], [9]], [[1], [1]], {}, "the window reaches row 1 of 1"),
        ([[9]], [[1]], {"first": 1}, "the window reaches row 1 of 1"),
        ([[9, 8, 8]], [[1, 2, 3]], ACROSS, r"row 0 reads positions \[0, 1, 1\] at position 1"),
    ],
)
def test_it_refuses_what_real_models_let_pass(ids: list, slots: list, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ScriptedModel([[5]]).open(1, 9).forward(window(ids, slots, len(ids[0]), **options))
