"""Where compiled functions are kept: apart for each version of the sources, in a place that can be written."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock, Timeout
from numba import config
from numba.core.registry import CPUDispatcher

from mars_kernels.cpu import amx, avx, backend, jit, layout, steps
from mars_kernels.cpu.jit import cache_folder


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("caller", "called"):
        (folder / f"{name}.py").write_text("NUMBER = 1")
    return folder


def test_each_version_of_the_sources_has_its_folder(sources: Path, tmp_path: Path) -> None:
    first = cache_folder(sources, [tmp_path / "kept"])
    assert first.parent == tmp_path / "kept"
    assert cache_folder(sources, [tmp_path / "kept"]) == first
    (sources / "called.py").write_text("NUMBER = 2")
    assert cache_folder(sources, [tmp_path / "kept"]) != first
    assert first.is_dir(), "another process may run that version"
    closed = tmp_path / "file"  # no folder can be made there, by root neither
    closed.write_text("")
    assert cache_folder(sources, [closed, tmp_path / "second"]).parent == tmp_path / "second"
    temporary = cache_folder(sources, [closed])
    assert temporary.is_dir()
    assert list(temporary.iterdir()) == []


PRINTED = """
import numba
from mars_kernels.cpu.tiles import kind_of_products
print(numba.config.CACHE_DIR)
print(kind_of_products())
"""


def test_the_environment_of_numba_counts(tmp_path: Path) -> None:
    """A folder that it names is versioned too; no kernels are used where LLVM, asked for one, would end the process."""
    command = [sys.executable, "-c", PRINTED]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": "generic"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    folder, kind = run.stdout.splitlines()
    assert Path(folder).parent == tmp_path
    assert Path(folder).name.startswith("numba-")
    assert kind == "None"


def test_processes_compile_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that start at once all but the first then find in the cache what they need.

    Two that added to the files of numba at once would take the same name for two of them.
    """
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    lock = FileLock(tmp_path / "compiling.lock")

    def compile_nothing(function: Callable[..., None]) -> int:
        with pytest.raises(Timeout):
            lock.acquire(timeout=0)
        return 7

    monkeypatch.setattr(jit, "cfunc", lambda *signature, **options: compile_nothing)
    assert jit.compiled(None, lambda: None) == 7
    with lock.acquire(timeout=0):
        pass


def test_no_function_may_be_optimised_into_other_sums() -> None:
    """LLVM optimises a function anew in each that calls it.

    With fastmath the process that compiled the layers of a pass wrote other texts in bfloat16 than those that loaded
    them afterwards.
    """
    modules = (steps, layout, amx, avx, backend)
    functions = [each for module in modules for each in vars(module).values() if isinstance(each, CPUDispatcher)]
    assert len(functions) > 15
    assert not [each for each in functions if each.targetoptions.get("fastmath")]
