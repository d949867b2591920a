from __future__ import annotations

import os

import pytest

from tests.performance.cores import only, shared_out
from tests.performance.page import main


def test_app_and_browser_share_the_cores_or_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert shared_out(False) == ({0, 2, 5}, {0, 2, 5})
    assert shared_out(True) == ({0, 2}, {5})


def test_one_core_cannot_be_kept_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
    assert main(["--apart"]) == 2
    assert "needs two cores" in capsys.readouterr().err


def test_a_system_without_such_a_choice_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert shared_out(False) == (frozenset(), frozenset())
    with pytest.raises(ValueError, match="needs Linux"):
        shared_out(True)
    with only(()):
        pass


def test_the_choice_of_cores_ends_with_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = [{0, 1, 2}]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores[-1], raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, chosen: cores.append(set(chosen)), raising=False)
    with only({1}):
        assert cores[-1] == {1}
    assert cores[-1] == {0, 1, 2}
