"""The paper's tables: every number arrives where it belongs, and is marked as published."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.published import FOLDER, FURTHER, read_published
from analysis.runs import columns


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return read_published()


def chosen(table: pd.DataFrame, /, **values: object) -> pd.DataFrame:
    for name, value in values.items():
        column = name.replace("__", ".")
        table = table[table[column].isna() if value is None else table[column] == value]
    return table


def test_all_of_it_is_marked(published: pd.DataFrame) -> None:
    assert tuple(published.columns) == (*columns(), *FURTHER)
    assert set(published["source"]) == {"published"}
    assert not published["timed"].any()
    assert published["id"].is_unique
    assert published["n"].isna().all()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_every_number_of_a_file_is_there(path: Path, published: pd.DataFrame) -> None:
    source = pd.read_csv(path)
    table = chosen(published, table=path.stem)
    shares = [name for name in source if name in ("accuracy", "mean", *published["tasks"].explode().unique())]
    expected = sorted(round(value / 100, 6) for name in shares for value in source[name].dropna())
    assert sorted(table["accuracy"].dropna().round(6)) == expected
    for theirs, ours in (("tokens_per_second", "tokens_per_second"), ("speedup_over_ar", "speedup"), ("seconds",) * 2):
        if theirs in source:
            assert sorted(table[ours]) == sorted(source[theirs])
    assert len(table) >= len(source)


def test_one_token_mode(published: pd.DataFrame) -> None:
    table = chosen(published, table="one_token_mode")
    mean = chosen(table, model__stage="mars", model__block_size=4, model__sft_loss=True)
    mean = mean[mean["tasks"].map(len) == 6]
    assert sorted(mean["accuracy"]) == [0.304, 0.581]
    assert set(mean["decoder"]) == {"sliding_window"}
    assert mean["settings.threshold"].isna().all()
    diffusion = chosen(table, model__stage="block_diffusion")
    assert set(diffusion["decoder"]) == {"block_diffusion"}
    assert diffusion["tokens_per_forward"].isna().all()
    without = chosen(table, model__sft_loss=False)
    assert set(without["model.block_size"]) == {4, 8, 16}
    assert len(chosen(table, model__stage=None, decoder="autoregressive")) == 2 * 7


def test_thresholds(published: pd.DataFrame) -> None:
    table = chosen(published, table="threshold_sweep", settings__threshold=0.9, model__block_size=4)
    table = chosen(table, model__sft_loss=True)
    small = table[table["model.name"].str.contains("0.5B")]
    found = {
        tasks: (accuracy, gained)
        for tasks, accuracy, gained in small[["tasks", "accuracy", "tokens_per_forward"]].values
    }
    assert found == {("GSM8K",): (pytest.approx(0.288), 1.66), ("HumanEval",): (pytest.approx(0.402), 1.37)}


def test_speeds(published: pd.DataFrame) -> None:
    [cached] = chosen(published, table="block_cache_throughput", settings__cache_block_size=32, batch_size=4).to_dict(
        "records"
    )
    assert (cached["decoder"], cached["tokens_per_second"], cached["speedup"]) == ("block_cached", 241.9, 1.71)
    uncached = chosen(published, table="block_cache_throughput", settings__use_cache=False)
    assert set(uncached["decoder"]) == {"sliding_window"}
    pairs = chosen(published, table="speculative_decoding")
    assert list(pairs["draft.stage"]) == ["sft", "sft", "mars"]
    assert list(pairs["model.stage"]) == ["sft", "mars", "mars"]
    assert list(pairs["settings.continuation"]) == [False, True, True]
    [jacobi] = chosen(published, decoder="jacobi", tokens_per_forward=1.07).to_dict("records")
    assert (jacobi["model.stage"], jacobi["accuracy"]) == ("sft", pytest.approx(0.28))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.unlink(), "is not a table of the paper"),
        (lambda path: path.write_text(""), "is not a table of the paper"),
        (lambda path: path.write_text("method,BBH\nx,1\n"), "column base_model is missing"),
    ],
)
def test_a_file_that_is_off(change: object, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "published"
    shutil.copytree(FOLDER, folder)
    path = folder / "one_token_mode.csv"
    change(path)  # type: ignore[operator]
    with pytest.raises(ValueError, match=words) as caught:
        read_published(folder)
    assert str(caught.value).startswith(str(path))
