"""The fields of an entry, and its hash."""

from pathlib import Path
from typing import Any

import pytest

from analysis.runs.schema import cpu_units, is_id, run_id, setting_hash, short_commit


@pytest.mark.parametrize(
    ("hardware", "units"),
    [
        ("Intel(R) Xeon(R) Processor, 2 cores, AMX", "AMX"),
        ("Intel(R) Xeon(R) Processor, 2 cores, AMX, limited to AVX512_CORE_BF16", "AMX, limited to AVX512_CORE_BF16"),
        ("AMD EPYC, 2 cores, AVX512-BF16", "AVX512-BF16"),
        ("AMD EPYC, 2 cores, neither AMX nor AVX512-BF16", "no AMX"),
        ("AMD EPYC, 2 cores", "no AMX"),
        ("NVIDIA H200", "NVIDIA H200"),
    ],
)
def test_the_units_of_a_cpu_in_few_words(hardware: str, units: str) -> None:
    assert cpu_units(hardware) == units


def test_a_short_commit_says_if_files_differed() -> None:
    assert [short_commit(name) for name in ("0123456789abcd", "0123456789abcd+changes")] == [
        "0123456789",
        "0123456789+changes",
    ]


MISSING = object()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("id", "../good", "id must be a plain file name"),
        ("model.fingerprint", "xyz", "model.fingerprint must be 16 hexadecimal digits"),
        ("model.stage", "dpo", "model.stage must be one of sft, mars, block_diffusion, got 'dpo'"),
        ("settings.block_size", 1000, "settings: block_size must be between 1 and 64, got 1000"),
        ("settings.luck", 1, "settings.luck is unknown: there is no such field"),
        ("tasks", [], "tasks must have at least 1 entry, got 0"),
        ("tasks", ["logic", "logic"], "tasks must be names, each once"),
        ("device", "tpu", "device must be one of cpu, cuda, got 'tpu'"),
        ("timed", True, "group must be a name in timed runs and null in others"),
        ("date", "2026-11-21T13:00:00", "date must be a date and time with its zone"),
        *((path, MISSING, f"{path} ") for path in ("id", "decoder", "plan", "model.name", "timed")),
    ],
)
def test_a_field_that_is_off(
    put: Any, change_entries: Any, only_problem: Any, path: str, value: object, words: str, tmp_path: Path
) -> None:
    bad = put(tmp_path, "bad")
    put(tmp_path, "good")

    def change(data: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        place = data["runs"][0]
        for name in outer:
            place = place[name]
        place[last] = value
        if value is MISSING:
            del place[last]

    change_entries(bad, change)
    assert f"bad.parquet: runs[0].{words}" in only_problem(tmp_path)


@pytest.mark.parametrize("name", ["_mars", ".x", "модель", "m" * 300])
def test_every_name_makes_an_id(entry: Any, name: str) -> None:
    assert is_id(run_id(name, entry()))


def test_the_hash_is_that_of_the_setting(entry: Any) -> None:
    assert setting_hash(entry()) == setting_hash(entry("other", date="2027-01-01T00:00:00+00:00", commit="f00"))
    assert setting_hash(entry()) != setting_hash(entry(batch_size=4))
    assert setting_hash(entry()) != setting_hash(entry(settings={**entry()["settings"], "threshold": None}))
