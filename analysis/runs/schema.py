"""The fields of a run's entry in the index, and what each may hold (docs/runs.md). No torch here."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from mars.config import DecodingSettings

SCHEMA = 1
STAGES = ("sft", "mars", "block_diffusion")
MODEL_FIELDS = ("name", "fingerprint", "parameters", "stage", "block_size", "sft_loss", "examples")
DEFAULT_SETTINGS = asdict(DecodingSettings())
"""The value, in older runs, of a field that came later."""
SETTING = (
    *("model", "draft", "decoder", "settings", "tasks", "problems", "seed", "batch_size"),
    *("dtype", "device", "timed", "group"),
)
PROVENANCE = (
    *("command", "commit", "hardware", "threads", "processes"),
    *("torch", "transformers", "python", "date", "plan"),
)

OPTIONAL = ("harness", "judged")
"""Further fields of the setting that only some runs have."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=-]{0,199}")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def is_id(value: object) -> bool:
    """Whether this can be the id of a run: a plain file name."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def setting_hash(entry: Mapping[str, Any]) -> str:
    """The end of a run's id: the same for the same setting, another for another."""
    setting = {name: entry[name] for name in SETTING} | {name: entry[name] for name in OPTIONAL if name in entry}
    return hashlib.sha256(json.dumps(setting, sort_keys=True, allow_nan=False).encode()).hexdigest()[:10]


def is_judged(entry: Mapping[str, Any]) -> bool:
    """Whether somebody judged the answers; else the column `correct` means nothing, and there is no accuracy."""
    return bool(entry.get("judged", True))


def check_entry(entry: Mapping[str, Any]) -> None:
    """Raise ValueError, beginning with the field at fault, unless all are there and hold what they should.

    Further fields are left alone; settings that are newer than the run have their defaults.
    """
    if not is_id(entry.get("id")):
        raise ValueError(f"id must be a plain file name of letters, digits and ._@+=-, got {entry.get('id')!r}")
    for name in (*SETTING, *PROVENANCE):
        if name not in entry:
            raise ValueError(f"{name} is missing")
    _check_model(entry["model"], "model")
    if entry["draft"] is not None:
        _check_model(entry["draft"], "draft")
    _check_settings(entry["settings"])
    for name, (fits, allowed) in _FIELDS.items():
        if not fits(entry[name]):
            raise ValueError(f"{name} must be {allowed}, got {entry[name]!r}")
    if not isinstance(entry.get("harness", {}), dict):
        raise ValueError(f"harness must be an object where it is there, got {entry['harness']!r}")
    if not isinstance(entry.get("judged", True), bool):
        raise ValueError(f"judged must be true or false where it is there, got {entry['judged']!r}")
    if entry["timed"] != (entry["group"] is not None):
        raise ValueError(f"group must be a name in timed runs and null in others, got {entry['group']!r}")


def _check_model(model: Any, where: str) -> None:
    if not isinstance(model, dict):
        raise ValueError(f"{where} must be an object, got {model!r}")
    for name in MODEL_FIELDS:
        if name not in model:
            raise ValueError(f"{where}.{name} is missing")
        fits, allowed = _MODEL[name]
        if not fits(model[name]):
            raise ValueError(f"{where}.{name} must be {allowed}, got {model[name]!r}")
    fits, allowed = _MODEL["fingerprint"]
    if "base" in model and not fits(model["base"]):
        raise ValueError(f"{where}.base must be {allowed} where it is there, got {model['base']!r}")


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, dict):
        raise ValueError(f"settings must be an object, got {settings!r}")
    for name, default in DEFAULT_SETTINGS.items():
        fits = _is_score if name == "threshold" else _LIKE[type(default)]
        if name in settings and not fits(settings[name]):
            raise ValueError(f"settings.{name} must be like {default!r}, got {settings[name]!r}")
    try:
        DecodingSettings(**settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"settings: {error}") from error


def _is_whole(value: Any, lowest: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_score(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_name, value)) and len(set(value)) == len(value)


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_Check = tuple[Callable[[Any], bool], str]
_NAME: _Check = (_is_name, "a word")
_NAME_OR_NULL: _Check = (lambda value: value is None or _is_name(value), "a word or null")
_POSITIVE: _Check = (lambda value: _is_whole(value, 1), "a whole number >= 1")
_COUNT: _Check = (_is_whole, "a whole number >= 0")
_FLAG: _Check = (lambda value: isinstance(value, bool), "true or false")
_SIZE_OR_NULL: _Check = (lambda value: value is None or _is_whole(value, 1), "a whole number >= 1 or null")

_LIKE: dict[type, Callable[[Any], bool]] = {
    int: _is_whole,
    float: _is_number,
    bool: _FLAG[0],
    str: _is_name,
}
_MODEL: dict[str, _Check] = {
    "name": _NAME,
    "fingerprint": (
        lambda value: isinstance(value, str) and _FINGERPRINT.fullmatch(value) is not None,
        "16 hexadecimal digits",
    ),
    "parameters": _POSITIVE,
    "stage": (lambda value: value is None or value in STAGES, f"one of {', '.join(STAGES)} or null"),
    "block_size": _SIZE_OR_NULL,
    "sft_loss": (lambda value: value is None or isinstance(value, bool), "true, false or null"),
    "examples": _SIZE_OR_NULL,
}
_FIELDS: dict[str, _Check] = {
    "decoder": _NAME,
    "tasks": (_is_names, "a list of names, each once"),
    "problems": _POSITIVE,
    "seed": _COUNT,
    "batch_size": _POSITIVE,
    "dtype": _NAME,
    "device": (lambda value: value in ("cpu", "cuda"), "cpu or cuda"),
    "timed": _FLAG,
    "group": _NAME_OR_NULL,
    "command": _NAME,
    "commit": _NAME_OR_NULL,
    "hardware": _NAME,
    "threads": _POSITIVE,
    "processes": _POSITIVE,
    "torch": _NAME,
    "transformers": _NAME,
    "python": _NAME,
    "date": (_is_date, "a date and time with its zone (ISO 8601)"),
    "plan": _NAME_OR_NULL,
}
