"""Readers for the scripted models: what they say of a text, wrong now and then or at random, so that passes differ."""

import random
from dataclasses import dataclass
from functools import cache

STOP = 2
VOCAB, MASK, STOPS = 12, 11, (2, 3)
"""Of the models that read by `Chance`."""


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


@dataclass(frozen=True)
class Chance:
    """A random but fixed answer to every text; its score is one of `scores`, or any without them.

    `stop_share` is that of stop tokens, `apart` that of answers that are not those of its seed.
    """

    seed: int
    stop_share: float = 0.0
    apart: float = 0.0
    scores: tuple[float, ...] = ()

    def __call__(self, tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        own = random.Random(f"own {self.seed} {tokens} {masks}")
        chance = own if own.random() < self.apart else random.Random(f"{self.seed} {tokens} {masks}")
        token = chance.choice(STOPS) if chance.random() < self.stop_share else chance.randrange(4, MASK)
        return token, chance.choice(self.scores) if self.scores else chance.uniform(0.2, 1.0)


@dataclass(frozen=True)
class Answers:
    """A random but fixed continuation of every text, which masks foresee with a chance of `foresight` out of 8.

    Probabilities lie on both sides of what makes a draft sure; `stops` out of 64 tokens end the text.
    """

    seed: int
    foresight: int
    stops: int

    @cache  # noqa: B019 - a few texts
    def __call__(self, tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        if masks and hash((self.seed, tokens, masks)) // 64 % 8 < self.foresight:
            for _ in range(masks):
                tokens = (*tokens, self(tokens, 0)[0])
            return self(tokens, 0)
        number = hash((self.seed, tokens, masks)) // 8
        token = 2 + number % 2 if number // 2 % 64 < self.stops else 4 + number // 128 % 7
        return token, (0.3, 0.49, 0.51, 0.65, 0.8, 0.9, 0.99, 1.0)[number // 1024 % 8]
