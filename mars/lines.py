"""Files of lines: text, or one JSON object a line or file. A line ends at a newline and nowhere else.

`str.splitlines` and Python's text mode also cut at other characters (U+2028, NEL, a lone carriage return), which may
stand inside a text, and a byte-order mark would become a part of the first line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MARK = b"\xef\xbb\xbf"


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line that is not blank, without its line end or a byte-order mark.

    ValueError where the file cannot be read, or a line, which it names, is not UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, start=1):
                raw = line.removeprefix(_MARK) if number == 1 else line
                try:
                    text = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from error
                if text.strip():
                    yield number, text
    except FileNotFoundError as error:
        raise ValueError(f"file {path} does not exist") from error
    except OSError as error:
        raise ValueError(f"file {path} cannot be read: {error.strerror or error}") from error


def read_objects(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each line stands, as `FILE, line N`, and its JSON object.

    ValueError where the file cannot be read, or a line, which it names, holds no JSON object.
    """
    for number, text in read_lines(path):
        where = f"{path}, line {number}"
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where}: expected one JSON object, got {text[:40]!r}") from error
        if not isinstance(found, dict):
            raise ValueError(f"{where}: expected one JSON object, got {text[:40]!r}")
        yield where, found


def object_in(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
