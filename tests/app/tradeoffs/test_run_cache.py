from collections.abc import Callable
from pathlib import Path

from analysis.figures import POOLED
from app.tradeoffs.run_cache import RunCache


def test_the_runs_are_read_and_measured_once(run_cache: RunCache) -> None:
    assert run_cache.store() is run_cache.store()
    assert run_cache.table() is run_cache.table(POOLED)
    one = run_cache.table("logic")
    assert set(one["task"]) == {"logic"}
    assert one is run_cache.table("logic")


def test_a_broken_run_is_named_without_a_path(fabricate: Callable[[Path], Path], tmp_path: Path) -> None:
    run_cache = RunCache(fabricate(tmp_path))
    broken = tmp_path / "other.parquet"
    broken.write_bytes(b"no Parquet")
    (problem,) = run_cache.store().problems
    assert broken.name in problem
    assert str(tmp_path) not in problem


def test_a_folder_without_runs_has_an_empty_table(tmp_path: Path) -> None:
    run_cache = RunCache(tmp_path)
    assert len(run_cache.store().runs.entries) == 0
    assert len(run_cache.table()) == 0


def test_an_answer_is_worked_out_once(run_cache: RunCache) -> None:
    asked: list[int] = []

    def make() -> str:
        asked.append(1)
        return "answer"

    store = run_cache.store()
    assert [store.remembered(("test", 1), make) for _ in range(2)] == ["answer", "answer"]
    assert len(asked) == 1
