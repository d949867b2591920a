"""The journal of a run: every result is in the file at once, and a line cut short costs that result alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.harness.journal import Journal


def test_a_second_run_has_what_the_first_one_got(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.jsonl"
    with Journal(path) as first:
        first.add("a", {"text": "é\n", "tokens": 3})
        first.add("b", [-1.5, True])
        with Journal(path) as second:  # the first is still open: nothing waits in it
            assert len(second) == 2
            assert "a" in second
            assert "c" not in second
            assert (second["a"], second["b"]) == ({"text": "é\n", "tokens": 3}, [-1.5, True])


@pytest.mark.parametrize("rest", [b'["b", {"tex', b'["b", 1]', b"\n", b"7\n", b'["b"]\n', b"\xff\xfe"])
def test_what_an_interruption_cut_short_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'["a", 1]\n' + rest)
    with Journal(path) as journal:
        assert len(journal) == 1
        journal.add("c", 3)
    assert path.read_bytes() == b'["a", 1]\n["c", 3]\n'


def test_a_complete_run_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.add("a", 1)
        journal.remove()
    assert not path.exists()


def test_without_a_path_it_is_memory_alone() -> None:
    with Journal() as journal:
        journal.add("a", 1)
        journal.remove()
        assert journal["a"] == 1
