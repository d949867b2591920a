"""Text in pieces, of which nothing drives a terminal; files of lines, where a line ends, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars.lines import read_lines, read_objects
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
    shown = "".join(pieces.add(token) for token in "✓".encode())
    assert shown.endswith("✓"), "a character behind them"


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


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "a\rb", "\ufeff"])
def test_a_line_ends_at_a_newline_alone(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(f"\ufeffone{inside}two\r\n\n \t\nthree".encode())
    assert list(read_lines(file)) == [(1, f"one{inside}two"), (4, "three")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": 1}\ncaf\xe9\n', "line 2: not UTF-8"),
        (b'{"a": 1}\n[1]\n', "line 2: expected one JSON object, got '\\[1\\]'"),
        (b'{"a": \n', "line 1: expected one JSON object"),
        (b"[" * 100_000, "line 1: expected one JSON object"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"lines.jsonl, {sentence}"):
        list(read_objects(file))
