"""What a lane tells the page of each pass."""

from collections.abc import Callable
from typing import Any

import pytest

from app.lane import Lane, baseline_of
from mars.config import DecodingSettings
from mars.decoding import DECODERS

MakeCheckpoint = Callable[..., Any]
REPLY = "So 3 * 18 = 54, and that is the number of sheep in all.\n#### 54"


def passes(checkpoint: Any, decoder: str, **changes: Any) -> list[dict[str, Any]]:
    """The messages that draw the passes of a whole run."""
    settings = DecodingSettings(**{"threshold": 0.9, "max_new_tokens": 64, "alternatives": 5, **changes})
    lane = Lane("b", "MARS", decoder, checkpoint, settings)
    ids = checkpoint.encode("How many sheep?")
    found = [lane.add(record)[0] for record in DECODERS[decoder](checkpoint.engine, [ids], settings)]
    return [message for message in found if message["kind"] == "pass"]


@pytest.fixture(scope="module")
def checkpoint(make_checkpoint: MakeCheckpoint) -> Any:
    return make_checkpoint("mars", REPLY)


def test_tokens_say_what_made_them(checkpoint: Any) -> None:
    for message in passes(checkpoint, "sliding_window"):
        assert [token[4] for token in message["tokens"]] == ["clean", *["mask"] * (len(message["tokens"]) - 1)]
        assert message["phase"] == "decode"
    exact = passes(checkpoint, "self_speculative")
    kinds = {token[4] for message in exact for token in message["tokens"]}
    assert kinds == {"clean", "draft"}
    assert {message["phase"] for message in exact} == {"verify"}


def test_a_guess_that_was_right_is_a_draft(checkpoint: Any) -> None:
    found = passes(checkpoint, "jacobi")
    assert {token[4] for message in found for token in message["tokens"]} == {"clean", "draft"}


def test_every_token_has_its_alternatives_the_surest_first(checkpoint: Any) -> None:
    for message in passes(checkpoint, "sliding_window"):
        for piece, score, _, ends, _, alternatives in message["tokens"]:
            assert len(alternatives) == 5
            assert alternatives[0][1] == pytest.approx(score, abs=1e-4)
            assert ends or alternatives[0][0] == piece
            shares = [share for _, share in alternatives]
            assert shares == sorted(shares, reverse=True)


def test_ghosts_are_what_was_proposed_and_refused(checkpoint: Any) -> None:
    refused = [message for message in passes(checkpoint, "sliding_window") if message["refused"] == "threshold"]
    assert refused
    for message in refused:
        assert len(message["tokens"]) + len(message["ghosts"]) == message["window"]
        assert message["ghosts"][0][1] < 0.9
        assert message["ghosts"][0][0]


def test_the_end_of_the_turn_and_the_limit_refuse_the_rest(checkpoint: Any) -> None:
    assert passes(checkpoint, "sliding_window", threshold=0.3)[-1]["refused"] == "end"
    assert passes(checkpoint, "autoregressive")[-1]["refused"] is None
    cut = passes(checkpoint, "sliding_window", threshold=0.3, max_new_tokens=5)[-1]
    assert (cut["refused"], cut["ghosts"]) == (None, [])


def test_what_waits_as_a_draft_was_not_refused(checkpoint: Any) -> None:
    exact = passes(checkpoint, "self_speculative", layout="quadratic")
    assert {message["refused"] for message in exact[:-1]} == {None}
    assert any(message["ghosts"] for message in exact)
    assert "draft" in {message["refused"] for message in passes(checkpoint, "jacobi")}


def test_lengths_count_the_passes_by_their_tokens(checkpoint: Any) -> None:
    found = passes(checkpoint, "sliding_window")
    accepted = [len(message["tokens"]) for message in found]
    assert found[-1]["counts"]["lengths"] == [accepted.count(length) for length in range(1, max(accepted) + 1)]


def test_the_baseline_is_the_first_lane_that_writes_token_by_token(checkpoint: Any) -> None:
    lanes = [Lane(key, key, decoder, checkpoint) for key, decoder in (("a", "jacobi"), ("b", "autoregressive"))]
    assert baseline_of(lanes).key == "b"
    assert baseline_of(lanes[:1]).key == "a"
