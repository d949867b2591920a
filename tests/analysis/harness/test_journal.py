"""The journal of a run: every result is in the file at once, and a line cut short costs that result alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.harness.journal import Journal


def test_a_second_run_has_the_firsts_answers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.jsonl"
    first = Journal(path)
    first.add("a", {"text": "é\n\u2028", "tokens": 3})
    first.add("b", [-1.5, True])
    assert Journal(path).results == {"a": {"text": "é\n\u2028", "tokens": 3}, "b": [-1.5, True]}
    first.remove()
    assert not path.exists()


@pytest.mark.parametrize("rest", [b'["b", {"tex', b'["b", 1]', b"\n", b"7\n", b'["b"]\n', b"\xff\xfe"])
def test_what_an_interruption_cut_short_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'["a", 1]\n' + rest)
    journal = Journal(path)
    assert journal.results == {"a": 1}
    journal.add("c", 3)
    assert path.read_bytes() == b'["a", 1]\n["c", 3]\n'
