"""Where compiled functions are kept: apart for each version of the sources, in a place that can be written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from filelock import Timeout
from numba import config
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from mars.engine import amx, avx, compiled, fused, heads, kernels, tile_layout, tiles
from mars.engine.kernels import cache_folder


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("caller", "called"):
        (folder / f"{name}.py").write_text("NUMBER = 1")
    return folder


def test_each_version_of_the_sources_has_a_folder_of_its_own(sources: Path, tmp_path: Path) -> None:
    first = cache_folder(sources, [tmp_path / "kept"])
    assert first.parent == tmp_path / "kept"
    assert cache_folder(sources, [tmp_path / "kept"]) == first
    (sources / "called.py").write_text("NUMBER = 2")
    assert cache_folder(sources, [tmp_path / "kept"]) != first
    assert first.is_dir(), "another process may run that version"


def test_a_folder_that_no_process_used_for_a_month_is_removed(sources: Path, tmp_path: Path) -> None:
    first = cache_folder(sources, [tmp_path])
    os.utime(first, (0, 0))
    assert cache_folder(sources, [tmp_path]) == first
    os.utime(first, (0, 0))
    (sources / "called.py").write_text("NUMBER = 2")
    assert cache_folder(sources, [tmp_path]).is_dir()
    assert not first.exists()


def test_the_first_place_that_can_be_written_is_taken(sources: Path, tmp_path: Path) -> None:
    closed = tmp_path / "file"  # no folder can be made there, by root neither
    closed.write_text("")
    assert cache_folder(sources, [closed, tmp_path / "second"]).parent == tmp_path / "second"
    temporary = cache_folder(sources, [closed])
    assert temporary.is_dir()
    assert list(temporary.iterdir()) == []


# The modules themselves, without the engine of their package, which takes as long to import as all the rest.
ALONE = """
import sys, types
package = sys.modules["mars.engine"] = types.ModuleType("mars.engine")
package.__path__ = [sys.argv[1]]
import numba
from mars.engine.tiles import kind_of_products
print(numba.config.CACHE_DIR)
print(kind_of_products())
"""


def test_the_environment_of_numba_counts(tmp_path: Path) -> None:
    """A folder that it names is versioned too; no kernels are used where LLVM, asked for one, would end the process."""
    command = [sys.executable, "-c", ALONE, str(Path(kernels.__file__).parent)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": "generic"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    folder, kind = run.stdout.splitlines()
    assert Path(folder).parent == tmp_path
    assert Path(folder).name.startswith("numba-")
    assert kind == "None"


def test_two_that_save_at_once_keep_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba reads the index, takes a free name, writes the index and then the file, without a lock.

    Threads have to wait for each other as processes do: each opens the file of the lock for itself.
    """
    read = IndexDataCacheFile._load_index

    def slowly(self: IndexDataCacheFile) -> object:
        found = read(self)
        time.sleep(0.2)
        return found

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", slowly)

    def save(name: str) -> None:
        IndexDataCacheFile(str(tmp_path), "function", "stamp").save(name, name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(save, ("one", "two")))
    kept = IndexDataCacheFile(str(tmp_path), "function", "stamp")
    assert [kept.load(name) for name in ("one", "two")] == ["one", "two"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fused._task.__wrapped__(kernels.PAIRS),
        lambda: tiles._task.__wrapped__(kernels.PAIRS),
        lambda: compiled._task(kernels.silu, kernels.WIDE, 5),
    ],
    ids=["fused", "tiles", "compiled"],
)
def test_processes_compile_in_turn(make: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that start at once all but the first then find in the cache what they need."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def compile_nothing(function: Callable[..., None]) -> SimpleNamespace:
        with pytest.raises(Timeout):
            kernels.compiling().acquire(timeout=0)
        return SimpleNamespace(address=7)

    for module in (fused, tiles, compiled):
        monkeypatch.setattr(module, "cfunc", lambda *signature, **options: compile_nothing)
    assert make() == 7
    with kernels.compiling().acquire(timeout=0):
        pass


@pytest.mark.parametrize("module", [kernels, heads, tile_layout, amx, avx, fused])
def test_no_function_may_be_optimised_into_other_sums(module: ModuleType) -> None:
    """LLVM optimises a function anew in each that calls it.

    With fastmath the process that compiled the layers of a pass wrote other texts in bfloat16 than those that loaded
    them afterwards.
    """
    functions = {name: each for name, each in vars(module).items() if isinstance(each, CPUDispatcher)}
    assert len(functions) > 1
    assert not [name for name, each in functions.items() if each.targetoptions.get("fastmath")]
