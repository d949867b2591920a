"""Readers for the scripted models: what they say of a text, wrong now and then, so that passes differ."""

from __future__ import annotations

STOP = 2


def truth(tokens: tuple[int, ...]) -> int:
    """The token after these."""
    return STOP if len(tokens) > 60 else 3 + (7 * tokens[-1] + 3 * sum(tokens[-2:-1]) + len(tokens)) % 50


def clear(tokens: tuple[int, ...], masks_read: int) -> tuple[int, float]:
    """A model that is right at most depths, and less sure the more masks it has read."""
    for _ in range(masks_read):
        tokens = (*tokens, truth(tokens))
    wrong = masks_read and (len(tokens) + masks_read) % 5 == 0
    token = 3 + (truth(tokens) + 1) % 50 if wrong else truth(tokens)
    return token, max(0.3, 0.99 - 0.06 * masks_read * (len(tokens) % 4))


def hasty(tokens: tuple[int, ...], masks_read: int) -> tuple[int, float]:
    """A draft model, which is wrong now and then."""
    token, score = clear(tokens, masks_read)
    return (11, score) if len(tokens) % 7 == 0 else (token, score)
