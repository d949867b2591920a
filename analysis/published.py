"""The tables of the paper (assets/published) as rows of a table of runs, always marked as published. No torch here.

They have no rows, no intervals and, if a file lacks it, no value. Shares are between 0 and 1, as in runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.runs import columns

FOLDER = Path(__file__).parent.parent / "assets" / "published"
PUBLISHED = "published"
BENCHMARKS = ("IFEval", "BBH", "MMLU-Pro", "GPQA", "GSM8K", "HumanEval")
FURTHER = ("table", "speedup")
"""Columns beyond those of runs: the file, and the speed-up over AR where the paper gives it."""

_MEAN = "mean"
_SMALL, _ONE_TOKEN, _THRESHOLD = "Qwen2.5-0.5B-Instruct", None, 0.95


def read_published(folder: Path = FOLDER) -> pd.DataFrame:
    """All tables of the folder, with the columns of `RunStore.table` and those of `FURTHER`.

    Raises:
        ValueError: names the file that is missing or damaged, or the column that it lacks.
    """
    rows: list[dict[str, Any]] = []
    for name, read in _TABLES.items():
        path = folder / f"{name}.csv"
        try:
            table = pd.read_csv(path)
            found = [row for line in table.to_dict("records") for row in read(line)]
        except KeyError as error:
            raise ValueError(f"{path}: column {error.args[0]} is missing") from error
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{path} is not a table of the paper: {error}") from error
        rows += [
            {"id": f"{PUBLISHED}.{name}.{number}", "table": name, "source": PUBLISHED, "timed": False, **row}
            for number, row in enumerate(found)
        ]
    return pd.DataFrame(rows, columns=[*columns(), *FURTHER])


def _one_token_mode(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    model = _model(line["method"], line["base_model"], line["block_size"])
    for task in (*BENCHMARKS, _MEAN):
        one_token = {"tokens_per_forward": 1.0} if model["model.stage"] != "block_diffusion" else {}
        yield {**model, **_decoder(model, _ONE_TOKEN), **_accuracy(task, line[task]), **one_token}


def _multi_token(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    model = _model(line.get("method", "MARS"), line["base_model"], line["block_size"])
    gained = {"tokens_per_forward": line["tokens_per_forward"]}
    yield {**model, **_decoder(model, line["threshold"]), **_accuracy(line["task"], line["accuracy"]), **gained}


def _jacobi(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    method = line["method"]
    is_mars = method.startswith("MARS")
    model = _model("MARS" if is_mars else "AR SFT", _SMALL, 4 if is_mars else None)
    decoder = {"decoder": "jacobi"} if method.startswith("Jacobi") else _decoder(model, _THRESHOLD)
    for task in (*BENCHMARKS, _MEAN):
        gained = {"tokens_per_forward": line["tokens_per_forward"]} if task == _MEAN else {}
        yield {**model, **decoder, **_accuracy(task, line[task]), **gained}


def _block_cache(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    method = line["method"]
    cached = method == "MARS, block cache"
    model = _model(method.split(",")[0], None, None)
    decoder = {"decoder": "block_cached", "settings.cache_block_size": line["cache_block_size"]}
    yield {
        **model,
        **(decoder if cached else {**_decoder(model, _ONE_TOKEN), "settings.use_cache": method == "AR, KV cache"}),
        "tasks": (),
        "batch_size": line["batch_size"],
        "tokens_per_second": line["tokens_per_second"],
        "seconds": line["seconds"],
        "speedup": line["speedup_over_ar"],
    }


def _speculative(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    draft = _model(line["draft"], None, None)
    yield {
        **_model(line["target"], None, None),
        **{name.replace("model.", "draft."): value for name, value in draft.items()},
        "decoder": "speculative",
        "settings.continuation": line["target"].startswith("MARS"),
        "tasks": ("GSM8K",),
        "tokens_per_forward": line["tokens_per_target_forward"],
        "tokens_per_second": line["tokens_per_second"],
        "seconds": line["seconds"],
        "speedup": line["speedup"],
    }


def _model(method: str, base: str | None, block_size: float | None) -> dict[str, Any]:
    is_mars = method.startswith("MARS")
    stage = "mars" if is_mars else "sft" if method.startswith("AR") else None
    return {
        "model.name": method if base is None else f"{method}, {base}",
        "model.stage": "block_diffusion" if method == "Block Diffusion" else stage,
        "model.block_size": block_size,
        "model.sft_loss": "without" not in method if is_mars else None,
    }


def _decoder(model: dict[str, Any], threshold: float | None) -> dict[str, Any]:
    names = {"mars": "sliding_window", "block_diffusion": "block_diffusion"}
    decoder = names.get(model["model.stage"], "autoregressive")
    size = {"settings.block_size": model["model.block_size"], "settings.threshold": threshold}
    return {"decoder": decoder, **(size if decoder == "sliding_window" else {})}


def _accuracy(task: str, percent: float) -> dict[str, Any]:
    return {"tasks": BENCHMARKS if task == _MEAN else (task,), "accuracy": percent / 100}


_TABLES: dict[str, Callable[[dict[str, Any]], Iterator[dict[str, Any]]]] = {
    "one_token_mode": _one_token_mode,
    "multi_token_tau_0.95": _multi_token,
    "threshold_sweep": _multi_token,
    "block_cache_throughput": _block_cache,
    "speculative_decoding": _speculative,
    "jacobi_baseline": _jacobi,
}
