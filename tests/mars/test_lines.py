"""Files of lines: where a line ends, byte-order marks, and what is refused."""

from pathlib import Path

import pytest

from mars.lines import read_lines, read_objects


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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.txt does not exist"):
        list(read_lines(tmp_path / "none.txt"))
