from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.compare.runner import Runner
from app.runs.run import read
from app.scheduling import AdmissionQueue, LiveRun
from app.tradeoffs.card import BUSY, OTHER, entry_of, rewrite, settings_of
from app.tradeoffs.run_cache import RunCache

RunOf = Callable[..., str]


def test_a_stored_text_is_written_again_alike(
    run_cache: RunCache, run_of: RunOf, make_runner: Callable[..., Runner]
) -> None:
    runner, store = make_runner(), run_cache.store()
    told = list(rewrite(runner, "session", store, run_of("mars", threshold=0.7), "logic", 3))
    assert all(set(each) == {"progress"} for each in told[:-1])
    run = read(told[-1]["run"])
    (lane,) = run.lanes
    assert (lane.key, lane.checkpoint, lane.decoder, lane.settings.threshold) == ("a", "mars", "sliding_window", 0.7)
    assert lane.records[1].rows[0].proposals[0].alternatives
    assert lane.right is False
    assert run.note == OTHER
    assert not runner.sessions.running("session")


def test_a_checkpoint_that_the_app_lacks_is_named(
    run_cache: RunCache, run_of: RunOf, make_runner: Callable[..., Runner]
) -> None:
    with pytest.raises(ValueError, match="no checkpoint with the weights of mars-b4"):
        list(rewrite(make_runner(), "session", run_cache.store(), run_of("mars-b4", threshold=0.9), "logic", 3))


def test_compare_goes_first(run_cache: RunCache, run_of: RunOf, make_runner: Callable[..., Runner]) -> None:
    runner = make_runner()
    runner.sessions.begin("session", LiveRun(AdmissionQueue().join(), 0.9))
    with pytest.raises(ValueError, match=BUSY):
        list(rewrite(runner, "session", run_cache.store(), run_of("mars", threshold=0.7), "logic", 3))
    assert runner.sessions.running("session")


def test_settings_of_newer_versions_do_no_harm(run_cache: RunCache, run_of: RunOf) -> None:
    entry: dict[str, Any] = json.loads(json.dumps(entry_of(run_cache.store().runs, run_of("mars", threshold=0.7))))
    entry["settings"]["invented_later"] = 1
    settings = settings_of(entry, most_tokens=64)
    assert (settings.threshold, settings.max_new_tokens) == (0.7, 64)
