from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from analysis.figures import POOLED
from app.tradeoffs.run_cache import RunCache


def test_the_runs_are_read_and_measured_once(library: RunCache) -> None:
    assert library.store() is library.store()
    assert library.table() is library.table(POOLED)
    one = library.table("logic")
    assert set(one["task"]) == {"logic"}
    assert one is library.table("logic")


def test_only_the_table_of_all_families_has_what_was_published(library: RunCache) -> None:
    assert set(library.table()["source"]) == {"measured", "published"}
    assert set(library.table("logic")["source"]) == {"measured"}


def test_those_who_wait_hear_how_far_it_is(runs_folder: Path) -> None:
    library = RunCache(runs_folder)
    sentences = list(library.opened())
    assert all(sentence.endswith("…") for sentence in sentences)
    assert list(library.opened()) == []
    assert len(library.store().runs.entries) == 14


def test_a_change_on_disk_is_noticed_and_read_when_asked(fabricate: Callable[[Path], Path], tmp_path: Path) -> None:
    library = RunCache(fabricate(tmp_path))
    before = library.store()
    assert not library.stale()
    assert not library.reload()
    index = tmp_path / "index.json"
    listed = json.loads(index.read_text())
    listed["runs"].pop()
    index.write_text(json.dumps(listed))
    assert library.stale()
    assert library.store() is before
    assert library.reload()
    assert len(library.store().runs.entries) == len(before.runs.entries) - 1
    assert not library.stale()


def test_a_broken_run_is_named_without_a_path(fabricate: Callable[[Path], Path], tmp_path: Path) -> None:
    library = RunCache(fabricate(tmp_path))
    broken = next(tmp_path.glob("block_cached*.parquet"))
    broken.write_bytes(b"no Parquet")
    (problem,) = library.store().problems
    assert broken.name in problem
    assert str(tmp_path) not in problem


def test_a_folder_without_runs_has_an_empty_table(tmp_path: Path) -> None:
    library = RunCache(tmp_path)
    assert len(library.store().runs.entries) == 0
    assert set(library.table()["source"]) == {"published"}


def test_an_answer_is_worked_out_once(library: RunCache) -> None:
    asked: list[int] = []

    def make() -> str:
        asked.append(1)
        return "answer"

    store = library.store()
    assert [store.remembered(("test", 1), make) for _ in range(2)] == ["answer", "answer"]
    assert len(asked) == 1
