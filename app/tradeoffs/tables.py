"""The numbers of a figure as a table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.figures.words import Row, decoder_words, measure_words, missing, model_words, threshold_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What a cell says of a row."""

    label: str
    words: Callable[[Row], str]
    number: bool = False


def _measure(label: str, name: str, form: str = ".2f", factor: float = 1.0) -> Column:
    """A measure with its interval, if it has one."""
    return Column(label=label, words=lambda row: measure_words(row, name, form, factor), number=True)


def _plain(label: str, name: str, form: str = "", *, number: bool = True) -> Column:
    return Column(label=label, words=lambda row: "" if missing(row.get(name)) else f"{row[name]:{form}}", number=number)


_SETTING = (
    Column(label="Model", words=model_words),
    Column(label="Decoder", words=decoder_words),
    Column(label="Threshold", words=threshold_words, number=True),
)
_BARS = (
    Column(label="Qualifies", words=lambda row: "" if "qualifies" not in row else "yes" if row["qualifies"] else "no"),
    _plain("p of the loss", "p_value", ".2g"),
    _plain("Settings tried", "tried", ".0f"),
)
_MEASURED = (
    _measure("Accuracy (%)", "accuracy", ".1f", 100.0),
    _measure("Tokens of one-token mode (%)", "agreement", ".1f", 100.0),
    _measure("Tokens per forward", "tokens_per_forward"),
    _measure("Tokens a second", "tokens_per_second", ".0f"),
    _measure("Speed-up over AR (×)", "speedup"),
    _measure("Accuracy against AR (points)", "loss", "+.1f", -1.0),
    _plain("Batch size", "batch_size", ".0f"),
    _plain("n", "n", ",.0f"),
    _plain("Hardware", "hardware", number=False),
    _plain("Date", "date", ".10", number=False),
)


def table(points: pd.DataFrame) -> dict[str, Any]:
    """The table of a figure, without empty columns; each row has the `id` of its run."""
    rows = points.to_dict("records")
    columns = [*_SETTING, *_BARS, *_MEASURED]
    columns = [column for column in columns if any(map(column.words, rows))]
    return {
        "columns": [{"label": column.label, "number": column.number} for column in columns],
        "rows": [{"id": row["id"], "cells": [column.words(row) for column in columns]} for row in rows],
    }
