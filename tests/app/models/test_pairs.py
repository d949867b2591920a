"""The pair that the page starts with, by the real code: a tiny GGUF file stands in for the package, with an adapter."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.compare.comparison import Question
from app.compare.lane_choice import PRESETS
from app.compare.runner import Runner
from app.models import pairs
from app.models.manager import Models
from app.models.placement import Loader
from app.scheduling import FULL_SPEED, AdmissionQueue, Sessions
from app.server import options
from mars.checkpoint.sources import NAMED_BASES
from tests.mars import conftest as shared

cache, tiny_llama, llama_folder = shared.cache, shared.tiny_llama, shared.llama_folder
write_gguf, tiny_gguf, write_adapter = shared.write_gguf, shared.tiny_gguf, shared.write_adapter


@pytest.fixture
def installed(
    tmp_path: Path, tiny_gguf: Path, cache: Path, write_adapter: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The package is installed, and two adapters of the same weights are where the page looks; the folder of MARS."""
    folder = write_adapter()
    record = json.loads((folder / "mars.json").read_text())
    record["base"]["name"] = "smollm2-135m"
    (folder / "mars.json").write_text(json.dumps(record))
    for lane in pairs.REAL_SOURCES:
        monkeypatch.setitem(pairs.REAL_SOURCES, lane, str(shutil.copytree(folder, tmp_path / lane)))
    monkeypatch.setattr(type(NAMED_BASES["smollm2-135m"]), "file", lambda self: tiny_gguf)
    return tmp_path / "mars"


def test_both_adapters_of_the_pair_write(installed: Path) -> None:
    chosen = options.read([])
    assert chosen.pairs[0].mars == installed.name
    loader = Loader("cpu", 1)
    models = Models(chosen.sources, loader, pinned=(chosen.pairs[0].ar, chosen.pairs[0].mars), told=loader.told)
    runner = Runner(models, AdmissionQueue(), Sessions())
    lanes = [make(ar=chosen.pairs[0].ar, mars=chosen.pairs[0].mars) for make in PRESETS.values()]
    asked = Question(prompt="Tom has 3 apples", threshold=0.95, max_new_tokens=24)
    event_stream = runner.event_streams.find(runner.start("me", asked, lanes, FULL_SPEED))
    assert event_stream is not None
    run = event_stream.result(300)
    assert run is not None
    texts = {lane.key: lane.text for lane in run.lanes}
    assert list(texts) == ["a", "b", "c"]
    assert texts["a"] == texts["c"] != ""
