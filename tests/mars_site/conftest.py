"""What the tests of the app and the library have: a browser's tabs, adapters of a tiny model; and the exported pair."""

from pathlib import Path
from typing import Any

import pytest

from app.models import pairs
from mars.checkpoint.weights import read_config
from mars_site import live
from tests.app.conftest import _sessions, new_tab, open_tab, visit
from tests.mars.conftest import llama_folder, tiny_llama, write_adapter

__all__ = ["_sessions", "llama_folder", "new_tab", "open_tab", "tiny_llama", "visit", "write_adapter"]
LAYERS = 2
"""Of SmolLM2 with its adapters the first layers alone are as exact a test as all of them."""


@pytest.fixture(scope="session")
def runtime() -> dict[str, str]:
    """The files of the npm packages."""
    try:
        return {name: str(path) for name, path in live.runtime().items()}
    except ValueError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported pair, without most of its layers."""
    from mars_site import onnx  # late: it needs a package that may be missing

    if missing := pairs.real_missing():
        pytest.skip(missing)
    found = tmp_path_factory.mktemp("pair")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx, "read_config", shortened)
        onnx.write([*pairs.REAL_SOURCES.values()], found)
    return found


def shortened(folder: Path) -> tuple[str, Any]:
    """The configuration of a checkpoint, that of SmolLM2 with few layers."""
    model_type, config = read_config(folder)
    if model_type == "llama":
        config.num_hidden_layers = LAYERS
    return model_type, config
