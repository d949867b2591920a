"""The cache of converted files: converted once, checked by hash, made again where it is not whole."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mars.checkpoint import converted as module
from mars.checkpoint.converted import MANIFEST, cache_folder, converted, known_fingerprint
from mars.checkpoint.errors import CheckpointError
from mars.checkpoint.weights import folder_fingerprint


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were converted, in order."""
    done: list[Path] = []
    convert = module.convert

    def counted(file: Path, *rest: object) -> None:
        done.append(file)
        convert(file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "convert", counted)
    return done


def forget() -> None:
    """As in a new process."""
    module._hash.cache_clear()


def test_a_file_is_converted_once(cache: Path, tiny_gguf: Path, conversions: list[Path]) -> None:
    folder = converted(tiny_gguf, "tiny")
    assert folder.parent == cache
    assert converted(tiny_gguf, "tiny") == folder
    forget()
    assert converted(tiny_gguf, "tiny") == folder
    assert conversions == [tiny_gguf]
    assert [path for path in cache.iterdir() if path.is_dir()] == [folder]


def test_the_content_decides_not_the_name(cache: Path, tiny_gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.copy(tiny_gguf, tmp_path / "elsewhere" / tiny_gguf.name)
    assert converted(Path(moved), "moved") == converted(tiny_gguf, "tiny")
    data = bytearray(tiny_gguf.read_bytes())
    data[-1] ^= 1
    tiny_gguf.write_bytes(data)
    assert converted(tiny_gguf, "tiny") != converted(Path(moved), "moved")


def take_an_earlier_format(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": 0}))


def turn_a_bit(folder: Path) -> None:
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-7] ^= 4
    weights.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "without manifest": lambda folder: (folder / MANIFEST).unlink(),
    "broken manifest": lambda folder: (folder / MANIFEST).write_text("[1, 2"),
    "earlier format": take_an_earlier_format,
    "cut weights": lambda folder: os.truncate(folder / "model.safetensors", 1000),
    "a bit turned": turn_a_bit,
    "without tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "a file more": lambda folder: (folder / "model-2.safetensors").write_text("what is this"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_not_whole_is_converted_again(
    cache: Path, tiny_gguf: Path, conversions: list[Path], damage: Callable[[Path], object]
) -> None:
    """In the same process and in a new one."""
    folder = converted(tiny_gguf, "tiny")
    wanted = folder_fingerprint(folder)
    for times in (2, 3):
        damage(folder)
        assert converted(tiny_gguf, "tiny") == folder
        assert len(conversions) == times
        assert folder_fingerprint(folder) == wanted
        forget()
    assert not list(cache.glob("*.part-*"))


def test_a_process_that_was_ended_leaves_nothing_behind(cache: Path, tiny_gguf: Path, conversions: list[Path]) -> None:
    folder = converted(tiny_gguf, "tiny")
    shutil.copytree(folder, cache / f"{folder.name}.part-abc")
    for name, age in (("other.part-1", 3_600), ("other.part-2", 100_000)):  # perhaps another process makes the first
        (cache / name).mkdir()
        os.utime(cache / name, (time.time() - age,) * 2)
    shutil.rmtree(folder)
    converted(tiny_gguf, "tiny")
    assert sorted(path.name for path in cache.iterdir() if path.is_dir()) == ["other.part-1", folder.name]


def test_a_conversion_that_fails_leaves_nothing_behind(cache: Path, tiny_gguf: Path) -> None:
    tiny_gguf.write_bytes(tiny_gguf.read_bytes()[:-5000])
    with pytest.raises(CheckpointError):
        converted(tiny_gguf, "tiny")
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_who_waits_for_another_is_told(cache: Path, tiny_gguf: Path, conversions: list[Path], tmp_path: Path) -> None:
    """And finds the folder that the other one made: what two processes want at once is converted once."""
    folder = converted(tiny_gguf, "tiny")
    made = folder.rename(tmp_path / "made")
    held, told = threading.Event(), threading.Event()
    sentences: list[str] = []

    def hold() -> None:
        with module.FileLock(folder.with_name(f"{folder.name}.lock")):
            held.set()
            told.wait(100)
            made.rename(folder)

    def tell(sentence: str, share: float) -> None:
        sentences.append(sentence)
        if sentence.startswith("another process"):
            told.set()

    other = threading.Thread(target=hold)
    other.start()
    held.wait(100)
    assert converted(tiny_gguf, "tiny", tell) == folder
    other.join(100)
    assert sentences == ["reading tiny", "another process converts tiny"]
    assert len(conversions) == 1


def test_an_unwritable_cache_is_one_sentence(tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARS_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        CheckpointError, match=r"tiny cannot be converted in .*file \(.*\): make room there, or set MARS"
    ):
        converted(tiny_gguf, "tiny")


def test_the_cache_is_the_users_or_the_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MARS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("MARS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder().name == "mars-lens"


def test_the_fingerprint_is_not_computed_again(cache: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = converted(tiny_gguf, "tiny")
    wanted = folder_fingerprint(folder)
    forget()
    monkeypatch.setattr(module, "folder_fingerprint", lambda folder: pytest.fail("computed"))
    converted(tiny_gguf, "tiny")
    assert known_fingerprint(folder) == wanted
    turn_a_bit(folder)
    monkeypatch.setattr(module, "folder_fingerprint", lambda folder: "another")
    assert known_fingerprint(folder) == "another"
