"""Where a result came from: the machine, in words."""

import shutil
from pathlib import Path

import pytest

from mars import provenance
from mars.provenance import bfloat16_units, commit, hardware


def test_speeds_in_bfloat16_depend_on_these_units() -> None:
    flags = ({"flags": f"fpu avx2{more}"} for more in (" avx512_bf16 amx_bf16", " avx512_bf16", ""))
    neither = "neither AMX nor AVX512-BF16"
    assert [*map(bfloat16_units, (*flags, {}))] == ["AMX", "AVX512-BF16", neither, neither]


@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_a_limit_of_instructions_is_named(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "avx512_core_bf16")
    assert bfloat16_units({"flags": "avx512_bf16 amx_bf16"}) == "AMX, limited to AVX512_CORE_BF16"
    monkeypatch.setenv(variable, "all")
    assert bfloat16_units({"flags": "avx512_bf16 amx_bf16"}) == "AMX"


def test_the_processor_is_named_with_its_cores() -> None:
    name, cores, units = hardware("cpu").rsplit(", ", 2)
    assert name
    assert cores.endswith(" cores")
    assert units in ("AMX", "AVX512-BF16", "neither AMX nor AVX512-BF16")


def test_copied_files_are_of_the_environments_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARS_COMMIT", "abc")
    assert commit() != "abc", "a repository knows better"
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit() == "abc"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert commit() == "abc"
    monkeypatch.delenv("MARS_COMMIT")
    assert commit() is None
