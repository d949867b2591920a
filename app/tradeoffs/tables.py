"""The numbers of a figure as a table that can be sorted, and as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign
from typing import Any

import pandas as pd

from analysis.figures.words import (
    Row,
    decoder_words,
    measure_words,
    missing,
    model_words,
    threshold_words,
)
from analysis.text_table import listed, to_csv

MOST_ROWS = 2_000
_FORMULA_SIGNS = ("=", "+", "-", "@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`words` gives the text of a cell, `key` its sort key; without one, the text is the key."""

    label: str
    words: Callable[[Row], str]
    key: Callable[[Row], float] | None = None


def number(label: str, name: str, form: str = ".2f", factor: float = 1.0) -> Column:
    """A measure with its interval, if it has one."""
    return Column(
        label=label,
        words=lambda row: measure_words(row, name, form, factor),
        key=lambda row: copysign(1.0, factor) * row.get(name, float("nan")),
    )


def _plain(label: str, name: str, form: str = "") -> Column:
    return Column(
        label=label,
        words=lambda row: "" if missing(row.get(name)) else f"{row[name]:{form}}",
        key=lambda row: row.get(name, float("nan")),
    )


def text(label: str, name: str) -> Column:
    """Text as it is."""
    return Column(label=label, words=lambda row: "" if missing(row.get(name)) else str(row[name]))


_SETTING = (
    Column(label="Model", words=model_words),
    Column(label="Decoder", words=decoder_words),
    Column(label="Threshold", words=threshold_words, key=lambda row: row["threshold"]),
)
_MEASURED = (
    number("Accuracy (%)", "accuracy", ".1f", 100.0),
    number("Tokens of one-token mode (%)", "agreement", ".1f", 100.0),
    number("Tokens per forward", "tokens_per_forward"),
    number("Tokens a second", "tokens_per_second", ".0f"),
    number("Speed-up over AR (×)", "speedup"),
    number("Accuracy against AR (points)", "loss", "+.1f", -1.0),
    _plain("Batch size", "batch_size", ".0f"),
    _plain("n", "n", ",.0f"),
    text("Hardware", "hardware"),
    Column(label="Date", words=lambda row: "" if missing(row.get("date")) else str(row["date"])[:10]),
)
_FURTHER: dict[str, tuple[Column, ...]] = {
    "equal_accuracy": (
        Column(label="Qualifies", words=lambda row: "yes" if row["qualifies"] else "no"),
        _plain("p of the loss", "p_value", ".2g"),
        _plain("Settings tried", "tried", ".0f"),
    ),
}


def table(points: pd.DataFrame, figure: str) -> dict[str, Any]:
    """The table of a figure, without empty columns."""
    columns = (*_SETTING, *_FURTHER.get(figure, ()), *_MEASURED)
    rows = points.head(MOST_ROWS).to_dict("records")
    return laid_out([column for column in columns if any(map(column.words, rows))], rows)


def laid_out(columns: Sequence[Column], rows: Sequence[Row]) -> dict[str, Any]:
    """Columns and rows, each with the `id` of its run or none; a cell is its text, and its sort key if that differs."""
    return {
        "columns": [{"label": column.label, "number": column.key is not None} for column in columns],
        "rows": [{"id": row.get("id", ""), "cells": [_cell(column, row) for column in columns]} for row in rows],
    }


def _cell(column: Column, row: Row) -> list[Any]:
    words = column.words(row)
    if column.key is None:
        return [words]
    value = column.key(row)
    return [words, None if missing(value) else float(value)]


def csv(points: pd.DataFrame) -> str:
    """The numbers drawn; text that a spreadsheet would take for a formula is escaped."""
    return to_csv(points, _escaped)


def _escaped(value: Any) -> Any:
    text = listed(value)
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA_SIGNS) else text
