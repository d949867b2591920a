import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.tradeoffs.card import PAGE, card, entry_of, fingerprint, named, samples
from app.tradeoffs.run_cache import RunCache
from mars_tasks import sample

RunOf = Callable[..., str]
SOURCES = {"ar": "ar", "mars": "mars"}


@pytest.fixture
def card_of(run_cache: RunCache) -> Callable[..., dict[str, Any]]:
    def made(run: str, sources: dict[str, str] = SOURCES) -> dict[str, Any]:
        return card(run_cache, run, sources)

    return made


def test_a_card_says_what_was_measured_and_where(card_of: Callable[..., dict[str, Any]], run_of: RunOf) -> None:
    shown = card_of(run_of("mars", threshold=0.7))
    accuracy = next(each for each in shown["measures"] if each["label"] == "Accuracy")
    assert accuracy["value"] == "87.5 %"
    low, high = map(float, accuracy["interval"].split(" to "))
    assert low < 87.5 < high
    facts = dict(shown["facts"])
    assert facts["Problems"] == "n = 400: logic, word problems"
    assert {"Hardware", "Number format", "Seed", "Date", "Commit", "Batch size"} <= set(facts)
    assert shown["command"] == "python -m analysis sweep …"


def test_a_checkpoint_that_the_app_lacks_is_named(card_of: Callable[..., dict[str, Any]], run_of: RunOf) -> None:
    shown = card_of(run_of("mars-b4", threshold=0.9))
    assert shown["choice"] is None
    assert shown["lacking"].startswith("The app has no checkpoint with the weights of mars-b4 (fingerprint ")
    assert shown["lacking"].endswith("start it with --checkpoint mars-b4=FOLDER.")


def test_families_take_turns_and_pages_follow_each_other(run_cache: RunCache, run_of: RunOf) -> None:
    runs = run_cache.runs
    entry = entry_of(runs, run_of("mars", threshold=0.5))
    first, second = samples(runs, entry), samples(runs, entry, first=PAGE)
    assert first["total"] == 400
    places = [(each["task"], each["number"]) for page in (first, second) for each in page["samples"]]
    assert places[:4] == [("logic", 0), ("word_problems", 0), ("logic", 1), ("word_problems", 1)]
    assert len(set(places)) == 2 * PAGE


def test_where_nobody_judged_nothing_is_right_or_wrong(run_cache: RunCache, run_of: RunOf) -> None:
    runs = run_cache.runs
    entry = {**entry_of(runs, run_of("mars", threshold=0.5)), "judged": False}
    for right in (None, True, False):
        found = samples(runs, entry, right=right)
        assert found["total"] == 400
        assert {each["right"] for each in found["samples"]} == {None}


def test_the_prompt_is_that_of_the_problem(run_cache: RunCache, run_of: RunOf) -> None:
    runs = run_cache.runs
    entry = entry_of(runs, run_of("mars", threshold=0.95))
    (shown, *_) = samples(runs, entry)["samples"]
    assert shown["prompt"] == sample("logic", entry["seed"] * 1_000_000).prompt
    assert shown["text"] == "what mars wrote"
    assert shown["answer"]


ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "assets" / "checkpoints" / "mars-b8"


def model(name: str, digest: str) -> dict[str, str]:
    return {"name": name, "fingerprint": digest}


def test_weights_are_known_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = fingerprint(str(tmp_path))
    assert first == hashlib.sha256(b"weights").hexdigest()[:16]
    sources = {"one": str(tmp_path), "shipped": str(SHIPPED)}
    assert named(model("anything", str(first)), sources) == "one"
    assert named(model("mars-b8", str(fingerprint(str(SHIPPED)))), sources) == "shipped"
    monkeypatch.setattr("app.tradeoffs.card.MOST_BYTES", 6)
    assert fingerprint(str(tmp_path)) is None, "a card that is opened reads no gigabytes"


def test_one_name_does_not_make_weights_equal(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert named(model("mars", "0" * 16), {"mars": str(tmp_path)}) is None


def test_absent_weights_are_known_by_name() -> None:
    assert named(model("Some/Model-7B", "0" * 16), {"big": "Some/Model-7B", "other": "Some/Other"}) == "big"
    assert named(None, {"big": "Some/Model-7B"}) is None
