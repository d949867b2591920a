import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from app.models.manager import ModelError, Models, offered
from app.models.sentences import complete, without_paths


def test_a_checkpoint_is_loaded_once() -> None:
    loaded: list[str] = []

    def load(source: str) -> Any:
        loaded.append(source)
        return source.upper()

    models = Models({"one": "folder/one"}, load)
    assert models.get("one") == models.get("one") == "FOLDER/ONE"
    assert loaded == ["folder/one"]


def test_a_broken_folder_gets_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    def load(source: str) -> Any:
        if source == "/srv/models/bad":
            raise ValueError("/srv/models/bad/config.json is missing: train it again")
        return source

    models = Models({"bad": "/srv/models/bad", "good": "good"}, load)
    with pytest.raises(ModelError, match=r"^config.json of bad is missing: train it again\.$"):
        models.get("bad")
    assert "/srv/models/bad/config.json" in caplog.text
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


def test_an_unforeseen_failure_names_only_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    def load(source: str) -> Any:
        raise OSError("secret/path")

    with pytest.raises(ModelError, match=r"could not be loaded \(OSError\)") as caught:
        Models({"one": "one"}, load).get("one")
    assert "secret" not in str(caught.value)
    assert "secret/path" in caplog.text


class Full:
    """Loads into a memory that has room for so many; what nobody holds any more makes room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.loaded: list[str] = []
        self.held: weakref.WeakSet[Any] = weakref.WeakSet()

    def __call__(self, source: str) -> Any:
        weights = Weights()
        self.held.add(weights)
        if len(self.held) > self.room:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        self.loaded.append(source)
        return weights


class Weights:
    pass


def offer(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def test_what_does_not_fit_gets_a_sentence() -> None:
    load = Full(room=2)
    models = Models(offer("ar", "mars", "large"), load, pinned=("ar", "mars"))
    ar, mars = models.get("ar"), models.get("mars")
    with pytest.raises(
        ModelError, match=r"^large does not fit into the memory of the device\. The checkpoints loaded before"
    ):
        models.get("large")
    assert models.get("ar") is ar
    assert models.get("mars") is mars
    assert models.state() == {"loaded": ["ar", "mars"], "loading": [], "failed": ["large"]}
    gc.collect()
    assert len(load.held) == 2, "a failed load holds nothing"


def test_short_memory_unloads_the_longest_idle() -> None:
    models = Models(offer("a", "b", "c", "d"), load := Full(room=3))
    for name in "abc":
        models.get(name)
    models.get("a")
    assert models.get("d")
    assert models.state()["loaded"] == ["a", "c", "d"]
    assert models.get("b")
    assert load.loaded == ["a", "b", "c", "d", "b"]


def test_at_most_so_many_stay_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.models.manager.KEPT", 2)
    models = Models(offer("a", "b", "c", "d"), Full(room=9), pinned=("a",))
    models.get("a")
    for name, kept in (("b", ["a", "b"]), ("c", ["a", "c"]), ("d", ["a", "d"])):
        models.get(name)
        assert models.state()["loaded"] == kept


def test_progress_says_how_long_it_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun, now = threading.Event(), threading.Event(), [100.0]

    def load(source: str) -> Any:
        begun.set()
        return gate.wait(30)

    monkeypatch.setattr("app.models.manager.time.monotonic", lambda: now[0])
    models = Models(offer("one"), load)
    assert models.progress("one") == "Loading one …"
    models.request("one")
    assert begun.wait(30)
    now[0] = 113.0
    assert models.progress("one") == "Loading one … 10 s so far"
    assert models.state()["loading"] == ["one"]
    gate.set()


@pytest.mark.parametrize("name", ["/etc", "x" * 10**6, ["one"], None, 7, "\ud800", "\u202eone"])
def test_only_what_is_offered_can_be_asked_for(name: Any) -> None:
    with pytest.raises(ModelError, match=r"^There is no checkpoint .{1,60} here; choose one of one\.$") as caught:
        Models({"one": "one"}, lambda source: pytest.fail(source)).get(name)
    str(caught.value).encode()


def shipped(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "config.json").write_text("{}")
    return folder


def test_names_are_short_and_no_paths(tmp_path: Path) -> None:
    shipped(tmp_path, "ar-sft", "mars-b8")
    (tmp_path / "notes").mkdir()
    mine = str(tmp_path / "elsewhere" / "ar-sft")
    assert offered("org/large", mine, "org/model", "org/model", shipped=tmp_path) == {
        "large": "org/large",
        "ar-sft": mine,
        "model": "org/model",
        "ar-sft (2)": str(tmp_path / "ar-sft"),
        "mars-b8": str(tmp_path / "mars-b8"),
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/models/mine/config.json is missing: copy it", "config.json is missing: copy it"),
        ("cannot read '/srv/models/a b': no", "cannot read 'a b': no"),
        ("~/models/mine is a file", "mine is a file"),
        (r"C:\models\mine\config.json is missing", "config.json is missing"),
        ("in /srv/one/two, and /srv/three/four.", "in two, and four."),
        ("see https://example.org/a/b and 1/2 of it", "see https://example.org/a/b and 1/2 of it"),
        ("tokens/forward and Qwen/Qwen2.5-0.5B", "tokens/forward and Qwen/Qwen2.5-0.5B"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_paths_are_shortened_to_their_last_part(text: str, shown: str) -> None:
    assert without_paths(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/srv/m/config.json is missing", "config.json of mine is missing"),
        ("/srv/m has no *.safetensors", "mine has no *.safetensors"),
        ("/srv/m2 is another", "m2 is another"),
        ("runs/x/mars.json: stage must be sft", "mars.json of mine: stage must be sft"),
    ],
)
def test_a_folder_is_called_by_its_name(text: str, shown: str) -> None:
    assert without_paths(text, {"/srv/m": "mine", "runs/x": "mine"}) == shown


@pytest.mark.parametrize(("text", "shown"), [("no", "no."), ("no. ", "no."), ("no?", "no?")])
def test_a_sentence_ends_like_one(text: str, shown: str) -> None:
    assert complete(text) == shown
