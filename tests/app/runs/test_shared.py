"""Runs saved on the server: found by their name alone, for some days, and never more than there is room for."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.runs.run import Run
from app.runs.stored import SharedRuns
from app.tabs.step import GONE, answer, link

DAY = 86_400


@pytest.fixture
def clock() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
def shared(tmp_path: Path, clock: list[float]) -> SharedRuns:
    return SharedRuns(tmp_path, days=7, now=lambda: clock[0])


def test_a_run_is_found_by_its_secret_name(shared: SharedRuns, finished_run: Run, tmp_path: Path) -> None:
    name = shared.keep(finished_run)
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", name)
    assert shared.keep(finished_run) == name
    assert shared.keep(replace(finished_run, id="another")) != name
    assert shared.find(name) == finished_run
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    assert all(name not in file.name and file.stat().st_mode & 0o77 == 0 for file in files)


def test_a_run_is_gone_after_its_days(
    shared: SharedRuns, finished_run: Run, clock: list[float], tmp_path: Path
) -> None:
    name = shared.keep(finished_run)
    clock[0] += 7 * DAY - 1
    assert shared.find(name) is not None
    clock[0] += 2
    assert shared.find(name) is None
    shared.keep(replace(finished_run, id="later"))
    assert len(list(tmp_path.iterdir())) == 1


def test_no_more_is_saved_than_fits(finished_run: Run, tmp_path: Path) -> None:
    shared = SharedRuns(tmp_path, most_bytes=1_000)
    with pytest.raises(ValueError, match=r"^The server has no room for another run now\. Save it as a file"):
        shared.keep(finished_run)
    assert list(tmp_path.iterdir()) == []


def test_a_half_written_run_is_deleted(
    shared: SharedRuns, finished_run: Run, tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "write_bytes", full)
        with pytest.raises(ValueError, match="could not save the run: No space left on device"):
            shared.keep(finished_run)
    assert list(tmp_path.iterdir()) == []
    left = tmp_path / "of-a-process-that-was-killed.run.part"
    left.write_text("half")
    os.utime(left, (clock[0],) * 2)
    shared.keep(finished_run)
    assert left.exists(), "another process may write it"
    clock[0] += 8 * DAY
    shared.keep(replace(finished_run, id="later"))
    assert not left.exists()


@pytest.mark.parametrize("name", ["", ".", "../secret", "/etc/passwd", "\0", "a" * 10_000, "\ud800"])
def test_a_name_is_never_a_path(shared: SharedRuns, finished_run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path.parent / "secret").write_text("{}")
    shared.keep(finished_run)
    assert shared.find(name) is None
    found = answer({"ask": "shared", "text": name, "ticket": 1}, shared)
    assert found == {"ticket": 1, "problem": "This run is not on the server. Saved runs are deleted after 7 days."}


def no_page(run: Run, lane: object, number: object) -> str:
    """What writes a page: a link needs none."""
    raise AssertionError("a link was asked for, and a page was written")


def test_a_visitor_saves_only_own_runs(shared: SharedRuns, finished_run: Run) -> None:
    asked = {"ask": "share", "text": finished_run.id, "ticket": 3}
    told = link(asked, [finished_run], shared, no_page)
    found = answer({"ask": "shared", "text": told["name"], "ticket": 4}, shared)
    assert f'"id":"{finished_run.id}"' in found["run"]
    assert link(asked, [], shared, no_page) == {"ticket": 3, "problem": GONE}
    assert link(asked, [finished_run], None, no_page) == {"ticket": 3, "problem": "This server saves no runs."}
    for nonsense in (None, [], {"text": ["x"]}, {"ticket": "<b>"}):
        assert link(nonsense, [finished_run], shared, no_page) == {"ticket": None, "problem": GONE}
