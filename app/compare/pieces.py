"""The text of single tokens, for proposals and alternatives that are not part of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


def piece_of(checkpoint: Checkpoint, token_id: int) -> str:
    """The text of one token alone; the name of one that stands for no text, nothing where it has none."""
    text = checkpoint.decode([token_id])
    if text or token_id >= len(checkpoint.tokenizer):
        return text
    return str(checkpoint.tokenizer.decode([token_id], skip_special_tokens=False))


class Pieces(dict[int, str]):
    """`piece_of`, looked up once for each token."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self._checkpoint = checkpoint

    def __missing__(self, token_id: int) -> str:
        piece = self[token_id] = piece_of(self._checkpoint, token_id)
        return piece
