"""Text in pieces: whole characters only, and nothing that drives a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars.text import TextPieces, printable


def decode_bytes(ids: list[int]) -> str:
    return bytes(ids).decode("utf-8", "replace")


@given(st.text(max_size=20))
def test_pieces_are_whole_characters_and_add_up(text: str) -> None:
    ids = list(text.encode("utf-8", "replace"))
    pieces = TextPieces(decode_bytes)
    parts = [pieces.add(token) for token in ids]
    assert "".join(parts) + pieces.flush() == decode_bytes(ids)
    if "\ufffd" not in text:
        assert all("\ufffd" not in part for part in parts)


def test_an_incomplete_character_is_shown_last_only() -> None:
    pieces = TextPieces(decode_bytes)
    assert [pieces.add(token) for token in b"a\xf0\x9f"] == ["a", "", ""]
    assert pieces.flush() == "\ufffd"
    assert pieces.flush() == ""


def test_bytes_that_never_complete_wait_not_forever() -> None:
    pieces = TextPieces(decode_bytes)
    shown = "".join(pieces.add(0x80) for _ in range(8))
    assert shown.count("\ufffd") >= 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tof ünïcode 👩\u200d🚀", "two\nlines\tof ünïcode 👩\u200d🚀"),
        ("\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        ("over\rwritten \x07\x08\x7f\x9b2J\x00", "over\ufffdwritten " + "\ufffd" * 4 + "2J\ufffd"),
        ("left\u202eright\u2066", "left\ufffdright\ufffd"),
        ("half a pair \ud800", "half a pair \ufffd"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
