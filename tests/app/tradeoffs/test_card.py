from collections.abc import Callable
from typing import Any

import pytest

from app.tradeoffs.card import card
from app.tradeoffs.run_cache import RunCache

RunOf = Callable[..., str]
SOURCES = {"ar": "ar", "mars": "mars"}


@pytest.fixture
def card_of(run_cache: RunCache) -> Callable[..., dict[str, Any]]:
    def made(run: str, sources: dict[str, str] = SOURCES) -> dict[str, Any]:
        return card(run_cache.store(), run_cache.table(), run, sources)

    return made


def test_a_card_says_what_was_measured_and_where(card_of: Callable[..., dict[str, Any]], run_of: RunOf) -> None:
    shown = card_of(run_of("mars", threshold=0.7))
    assert shown["model"] == "MARS, threshold at τ 0.7"
    assert shown["setting"] == "mars · sliding_window · τ 0.7 · batch size 16"
    accuracy = next(each for each in shown["measures"] if each["label"] == "Accuracy")
    assert accuracy["value"] == "87.5 %"
    low, high = map(float, accuracy["interval"].split(" to "))
    assert low < 87.5 < high
    facts = dict(shown["facts"])
    assert facts["Problems"] == "n = 400: logic, word problems"
    assert {"Hardware", "Number format", "Seed", "Date", "Commit", "Batch size"} <= set(facts)
    assert shown["command"] == "python -m analysis sweep …"


def test_a_checkpoint_that_the_app_lacks_is_named(card_of: Callable[..., dict[str, Any]], run_of: RunOf) -> None:
    shown = card_of(run_of("mars-b4", threshold=0.9))
    assert shown["choice"] is None
    assert shown["lacking"].startswith("The app has no checkpoint with the weights of mars-b4 (fingerprint ")
    assert shown["lacking"].endswith("start it with --checkpoint mars-b4=FOLDER.")
