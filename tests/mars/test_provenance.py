"""Where a result came from: the machine, in words."""

from __future__ import annotations

import pytest

from mars.provenance import bfloat16_units, hardware


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("fpu avx2 avx512_bf16 amx_bf16", "AMX"),
        ("fpu avx2 avx512_bf16", "AVX512-BF16"),
        ("fpu avx2", "neither AMX nor AVX512-BF16"),
        ("", "neither AMX nor AVX512-BF16"),
    ],
)
def test_speeds_in_bfloat16_depend_on_these_units(flags: str, words: str) -> None:
    assert bfloat16_units({"flags": flags}) == words
    assert bfloat16_units({}) == "neither AMX nor AVX512-BF16"


def test_the_processor_is_named_with_its_cores_and_units() -> None:
    name, cores, units = hardware("cpu").rsplit(", ", 2)
    assert name
    assert cores.endswith(" cores")
    assert units in ("AMX", "AVX512-BF16", "neither AMX nor AVX512-BF16")
