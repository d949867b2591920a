"""What a lane tells the page of each pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.compare.lane import Lane
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS

MakeCheckpoint = Callable[..., Any]
REPLY = "So 3 * 18 = 54, and that is the number of sheep in all.\n#### 54"


def passes(checkpoint: Any, decoder: str, **changes: Any) -> list[dict[str, Any]]:
    """The messages that draw the passes of a whole run."""
    settings = DecodingSettings(**{"threshold": 0.9, "max_new_tokens": 64, "alternatives": 5, **changes})
    lane = Lane("b", "MARS", decoder, checkpoint, settings)
    ids = checkpoint.encode("How many sheep?")
    control = Control(settings.threshold, settings.score, trace=True)
    found = [lane.add(record)[0] for record in DECODERS[decoder](checkpoint.engine, [ids], settings, control)]
    return [message for message in found if message["kind"] == "pass"]


@pytest.fixture(scope="module")
def checkpoint(make_checkpoint: MakeCheckpoint) -> Any:
    return make_checkpoint("mars", REPLY)


def test_tokens_say_what_made_them(checkpoint: Any) -> None:
    for message in passes(checkpoint, "sliding_window"):
        assert [token[4] for token in message["tokens"]] == ["clean", *["mask"] * (len(message["tokens"]) - 1)]
    exact = passes(checkpoint, "self_speculative")
    kinds = {token[4] for message in exact for token in message["tokens"]}
    assert kinds == {"clean", "draft"}


def test_every_token_has_its_alternatives_the_surest_first(checkpoint: Any) -> None:
    for message in passes(checkpoint, "sliding_window"):
        for piece, score, _, ends, _, alternatives in message["tokens"]:
            assert len(alternatives) == 5
            assert alternatives[0][1] == pytest.approx(score, abs=1e-4)
            assert ends or alternatives[0][0] == piece
            shares = [share for _, share in alternatives]
            assert shares == sorted(shares, reverse=True)


def test_a_short_answer_is_as_fast_as_a_long_one(checkpoint: Any) -> None:
    """Reading the prompt counts once, however long the answers are."""
    ids = checkpoint.encode("How many sheep?")
    long, short = lanes = [Lane(key, "AR", "autoregressive", checkpoint) for key in "ab"]
    for lane, count in zip(lanes, (12, 3), strict=True):
        settings = DecodingSettings(threshold=None, max_new_tokens=count)
        for record in DECODERS[lane.decoder](checkpoint.engine, [ids], settings, Control(None)):
            lane.add(replace(record, seconds=1.0 if record.rows[0].accepted else 9.0))
    assert (long.tally.tokens, short.tally.seconds) == (12, 12.0)
    assert (short.speed_over(long), long.speed_over(short)) == (1.0, 1.0)


def test_ghosts_are_what_was_proposed_and_refused(checkpoint: Any) -> None:
    refused = [message for message in passes(checkpoint, "sliding_window") if "below" in message["reasons"]]
    assert refused
    for message in refused:
        assert message["reasons"].index("below") == len(message["tokens"])
        assert len(message["tokens"]) + len(message["ghosts"]) == message["window"]
        assert message["ghosts"][0][1] < 0.9
        assert message["ghosts"][0][0]


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window"])
def test_a_pass_says_how_many_masks_it_spent(checkpoint: Any, decoder: str) -> None:
    found = passes(checkpoint, decoder)
    proposed = [len(message["tokens"]) + len(message["ghosts"]) for message in found]
    assert [message["masks"] for message in found] == [count - 1 for count in proposed]
    assert any(message["masks"] for message in found) == (decoder == "sliding_window")
