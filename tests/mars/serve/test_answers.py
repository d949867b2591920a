"""Stop strings and the bytes of tokens, without a server."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars.checkpoint import Checkpoint
from mars.records import ForwardPass, Proposal, RowPass
from mars.serve.answers import LOWEST_LOGPROB, Candidates, StopStrings, Writer

LETTERS = st.text("ab", max_size=12)


@given(LETTERS, st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.lists(st.integers(0, 12), max_size=5))
def test_however_a_text_comes_it_is_cut_before_the_first_stop_string(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    found = StopStrings(stops)
    shown = "".join(found.add(text[begin:end]) for begin, end in pairwise(places))
    shown += "" if found.found else found.flush()
    ends = [place for stop in stops if (place := text.find(stop)) >= 0]
    assert found.found == bool(ends)
    if not ends:
        assert shown == text
    else:
        # A shorter stop string is seen as soon as it is there, though one that began earlier might still have come.
        assert text.startswith(shown)
        assert any(text[len(shown) :].startswith(stop) for stop in stops)


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    found = StopStrings(["END", "##"])
    assert found.add("a E") == "a "
    assert found.add("N") == ""
    assert found.add("d #") == "ENd "
    assert found.add("#x") == ""
    assert found.found
    assert found.add("more") == ""


def test_a_token_that_is_part_of_a_character_has_its_own_bytes(checkpoint: Checkpoint) -> None:
    ids = checkpoint.encode_text("☃é!")
    candidates = Candidates(checkpoint)
    assert bytes(byte for token in ids for byte in candidates.of(token, 0.5).bytes).decode() == "☃é!"
    assert candidates.of(ids[0], 0.0).logprob == LOWEST_LOGPROB


def _pass(ids: list[int], reason: Any = None) -> ForwardPass:
    proposals = tuple(Proposal(token, 0.5, "clean") for token in ids)
    return ForwardPass(0, "decode", 0.01, 1, (RowPass(0, 0, proposals, len(ids), None, reason),))


def test_tokens_behind_a_stop_string_do_not_count(checkpoint: Checkpoint) -> None:
    ids = checkpoint.encode_text("one two three")
    writer = Writer(checkpoint, ["two"], None)
    piece = writer.add(_pass(ids, "length"))
    assert (piece.text, piece.finish) == ("one ", "stop")
    assert piece.tokens < len(ids)


@pytest.mark.parametrize(("reason", "finish"), [("length", "length"), ("stop", "stop")])
def test_what_was_held_back_comes_at_the_end(checkpoint: Checkpoint, reason: str, finish: str) -> None:
    writer = Writer(checkpoint, ["three!"], None)
    first = writer.add(_pass(checkpoint.encode_text("one thr")))
    last = writer.add(_pass(checkpoint.encode_text("ee"), reason))
    assert first.text + last.text == "one three"
    assert last.finish == finish
