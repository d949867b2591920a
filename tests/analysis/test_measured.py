"""The tables that are kept with a store: the same as measured, and only of the very runs they were made of."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import figures
from analysis.measured import FILE, read_measured, write_measured
from analysis.runs import open_runs, read_runs, write_run
from analysis.runs.store import RunStore

SHIPPED = Path(__file__).parents[2] / "assets" / "runs"


@pytest.fixture
def folder(fabricate: Any, tmp_path: Path) -> Path:
    mars = fabricate.model("mars-b8")
    runs = [fabricate.run(group="timed"), fabricate.run(mars, "sliding_window", threshold=0.9, group="timed")]
    for entry, rows in runs:
        write_run(tmp_path, entry, rows)
    entry, rows = fabricate.run(mars, "self_speculative", layout="linear")
    write_run(tmp_path, {**entry, "plan": "other"}, rows)
    return tmp_path


def test_the_kept_tables_are_those_that_are_measured(folder: Path) -> None:
    write_measured(folder)
    found = read_measured(folder)
    assert found is not None
    runs = read_runs(folder)
    pd.testing.assert_frame_equal(found(figures.POOLED), figures.measure(runs))
    pd.testing.assert_frame_equal(found("logic"), figures.measure(runs, families=("logic",)))


def test_another_or_changed_run_voids_them(fabricate: Any, folder: Path) -> None:
    assert read_measured(folder) is None
    write_measured(folder)
    assert read_measured(folder) is not None
    write_run(folder, *fabricate.run(batch_size=4))
    assert read_measured(folder) is None


def test_a_damaged_file_is_named(folder: Path) -> None:
    (folder / FILE).write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=rf"{FILE} is damaged \(BadGzipFile\): make it again"):
        read_measured(folder)


def test_a_store_with_broken_runs_is_unmeasured(folder: Path) -> None:
    (folder / "other.parquet").write_bytes(b"no Parquet")
    with pytest.raises(ValueError, match="is damaged"):
        write_measured(folder)


def test_shipped_tables_are_of_the_shipped_runs() -> None:
    """If this fails: python -m analysis measured."""
    found = read_measured(SHIPPED)
    assert found is not None, "the runs have changed: python -m analysis measured"
    with pytest.raises(KeyError):
        found("ifeval")  # which no view shows apart
    opened = open_runs(SHIPPED)
    names = ("ar-sft.autoregressive.b1.", "mars-b8.sliding_window@0.95-b8.b1.", "mars-b8.self_speculative-b8-auto.b1.")
    few = [entry for entry in opened.entries if entry["id"].startswith(names)]
    store = RunStore(entries=few, frames={entry["id"]: opened.rows(entry["id"]) for entry in few})
    fresh = figures.measure(store).set_index("id")
    kept = found(figures.POOLED).set_index("id").loc[fresh.index]
    columns = ["ar_run", "loss", "loss_low", "accuracy", "tokens_per_second_high", "same_text", "threshold", "n"]
    timed = fresh.index[fresh["group"] == "shipped/decoders"]
    pd.testing.assert_frame_equal(kept.loc[timed, columns], fresh.loc[timed, columns], check_dtype=False)
