import threading
from pathlib import Path
from typing import Any

import pytest

from app.models import ModelError, Models, offered


def test_a_checkpoint_is_loaded_once() -> None:
    loaded: list[str] = []

    def load(source: str) -> Any:
        loaded.append(source)
        return source.upper()

    models = Models({"one": "folder/one"}, load)
    assert models.get("one") == models.get("one") == "FOLDER/ONE"
    assert loaded == ["folder/one"]


def test_a_broken_folder_gets_its_sentence_and_the_others_stay_usable() -> None:
    def load(source: str) -> Any:
        if source == "bad":
            raise ValueError("bad/config.json is missing: train it again")
        return source

    models = Models({"bad": "bad", "good": "good"}, load)
    with pytest.raises(ModelError, match=r"^bad/config.json is missing: train it again\.$"):
        models.get("bad")
    assert models.get("good") == "good"


def test_a_repaired_folder_can_be_loaded_again() -> None:
    broken = True

    def load(source: str) -> Any:
        if broken:
            raise ValueError("no weights")
        return source

    models = Models({"one": "one"}, load)
    with pytest.raises(ModelError):
        models.get("one")
    broken = False
    models.request("one")
    with pytest.raises(ModelError):
        models.get("one")
    models.request("one", again=True)
    assert models.get("one") == "one"


def test_an_unforeseen_failure_names_its_kind_and_hides_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    def load(source: str) -> Any:
        raise MemoryError("secret/path")

    with pytest.raises(ModelError, match="MemoryError") as caught:
        Models({"one": "one"}, load).get("one")
    assert "secret" not in str(caught.value)
    assert "secret/path" in caplog.text


def test_only_what_is_offered_can_be_asked_for() -> None:
    with pytest.raises(ModelError, match="no checkpoint “/etc” here; choose one of one"):
        Models({"one": "one"}, lambda source: pytest.fail(source)).get("/etc")


def test_waiting_has_a_limit() -> None:
    gate = threading.Event()

    def load(source: str) -> Any:
        gate.wait(30)
        return source

    models = Models({"one": "one"}, load)
    models.request("one")
    assert not models.wait("one", 0.01)
    gate.set()
    assert models.wait("one", 30)


def test_names_are_short_and_shipped_checkpoints_are_offered_too(tmp_path: Path) -> None:
    for name in ("ar-sft", "mars-b8", "notes"):
        (tmp_path / name).mkdir()
        if name != "notes":
            (tmp_path / name / "config.json").write_text("{}")
    mine = str(tmp_path / "elsewhere" / "ar-sft")
    assert offered(mine, "org/model", shipped=tmp_path) == {
        "ar-sft": mine,
        "model": "org/model",
        str(tmp_path / "ar-sft"): str(tmp_path / "ar-sft"),
        "mars-b8": str(tmp_path / "mars-b8"),
    }


def test_one_checkpoint_for_both_lanes_is_offered_once(tmp_path: Path) -> None:
    assert offered("a/b", "a/b", shipped=tmp_path) == {"b": "a/b"}
