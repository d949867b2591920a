"""Checkpoints that know the answers of some problems, so that a score board has something to count."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest

from mars.checkpoint import Checkpoint
from mars_tasks import Problem
from tests.scripted import ScriptedModel

NO_IDEA = "I do not know."


class Reciting(ScriptedModel):
    """Writes the reply that belongs to a prompt; masks are read with a score of 0.9."""

    def __init__(self, replies: dict[tuple[int, ...], list[int]], **options: Any) -> None:
        super().__init__((), **options)
        self._replies = replies

    def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
        reply = self._replies[tokens[: len(tokens) - position]]
        token = reply[position] if position < len(reply) else min(self.stop_token_ids)
        return self.spread(token, 0.9 if masks_read else 0.6)


@pytest.fixture(scope="session")
def make_scholar(scriptorium: Any) -> Callable[..., Checkpoint]:
    """`make_scholar("name", problems, knows={0, 2})`: solves the problems of these numbers and no other."""

    def scholar(
        name: str, problems: Iterable[Problem], knows: Collection[int], *, masks: bool = True, seconds: float = 0.004
    ) -> Checkpoint:
        plain = scriptorium.checkpoint(name, NO_IDEA, masks=masks)
        replies = {}
        for number, problem in enumerate(problems):
            text = problem.solution if number in knows else NO_IDEA
            ids = scriptorium.tokenizer(text, add_special_tokens=False)["input_ids"]
            replies[tuple(plain.encode(problem.prompt))] = ids
        options = ("vocab_size", "mask_token_id", "stop_token_ids", "context_length")
        same = {option: getattr(plain.engine, option) for option in options}
        return replace(plain, engine=Reciting(replies, seconds_per_pass=seconds, **same))

    return scholar
