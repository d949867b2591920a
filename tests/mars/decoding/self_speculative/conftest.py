"""Models that recite one reply, more or less surely, and what exact decoding forwards and records with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

STOP = 2
REPLY = (5, 6, 7, 8, 9, 10, 11, 12, 13, STOP)


@pytest.fixture
def reply() -> list[int]:
    """Nine tokens, 5 to 13, and the stop token 2."""
    return list(REPLY)


@pytest.fixture(scope="session")
def wrong_at() -> Callable[..., ScriptedModel]:
    """`wrong_at(4)`: recites; at these positions masks propose another token, 20, than the real prefix does."""

    def wrong_at(*positions: int) -> ScriptedModel:
        def answer(row: int, position: int, masks: int) -> tuple[int, float]:
            return 20 if masks and position in positions else recited(position), 0.9

        return ScriptedModel(answer)

    return wrong_at


@pytest.fixture(scope="session")
def unsure() -> Callable[..., ScriptedModel]:
    """`unsure((1.0, 0.4), (0.9,))`: recites; each row's answers have these probabilities by the number of masks read.

    The last one is for more masks.
    """

    def unsure(*probabilities: tuple[float, ...]) -> ScriptedModel:
        def answer(row: int, position: int, masks: int) -> tuple[int, float]:
            return recited(position), probabilities[row][min(masks, len(probabilities[row]) - 1)]

        return ScriptedModel(answer)

    return unsure


def recited(position: int) -> int:
    return REPLY[position] if position < len(REPLY) else STOP


@pytest.fixture(scope="session")
def run() -> Callable[..., list[ForwardPass]]:
    """`run(model, prompts, layout="linear")`: the records of exact decoding, by default with blocks of 3."""

    def run(model: ScriptedModel, prompts: list[list[int]], **options: object) -> list[ForwardPass]:
        settings = DecodingSettings(**{"block_size": 3, "max_new_tokens": 20, **options})
        return list(DECODERS["self_speculative"](model, prompts, settings))

    return run


@pytest.fixture(scope="session")
def windows() -> Callable[..., list[list[int]]]:
    """`windows(model)`: what was read of a row, by default the first, in each pass but prefill."""
    return lambda model, row=0: [call.ids[row] for call in model.calls if call.keep]


@pytest.fixture(scope="session")
def seen() -> Callable[..., list[tuple[int, list[int], int]]]:
    """`seen(records)`: (start, proposals, accepted) of each verify pass of row 0."""

    def seen(records: list[ForwardPass]) -> list[tuple[int, list[int], int]]:
        return [
            (part.start, [proposal.token_id for proposal in part.proposals], part.accepted)
            for record in records
            if record.phase == "verify"
            for part in record.rows
            if part.row == 0
        ]

    return seen


@pytest.fixture(scope="session")
def sources() -> Callable[..., list[list[str]]]:
    """`sources(records)`: what each proposal for row 0 read, pass by pass."""
    return lambda records: [[proposal.source for proposal in record.rows[0].proposals] for record in records]
