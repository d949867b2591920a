"""The fields of a run's entry in the index, and what each may hold (docs/runs.md). No torch here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from mars.config import DecodingSettings
from mars.decoders import Stage
from mars.schema import Open, checked, must_be, prefixing_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(DecodingSettings):
    """The settings of a run; with `continuation` a target went on with masks behind the drafts (until 4ebfdf5)."""

    continuation: bool = False


SCHEMA = 2
DEFAULT_SETTINGS = asdict(RunSettings())
"""The value, in older runs, of a field that came later."""

_LONGEST = 200
_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@+=-]{{0,{_LONGEST - 1}}}")
_FOREIGN = re.compile(r"[^A-Za-z0-9._@+=-]")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def is_id(value: object) -> bool:
    """Whether this can be the id of a run: a plain file name."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _has_zone(date: str) -> bool:
    return datetime.fromisoformat(date).tzinfo is not None


def _differ(names: list[str]) -> bool:
    return len(set(names)) == len(names)


_Word = Annotated[str, Field(min_length=1)]
_Count = Annotated[int, Field(ge=1)]
_Fingerprint = Annotated[str, must_be("16 hexadecimal digits", _FINGERPRINT.fullmatch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel(Open):
    """The checkpoint of a run. `base` is the fingerprint of the model under an adapter, as in that model's own runs."""

    name: _Word
    fingerprint: _Fingerprint
    parameters: _Count
    stage: Stage | None
    block_size: _Count | None
    sft_loss: bool | None
    examples: _Count | None
    base: _Fingerprint | None = None

    @property
    def is_full_mars(self) -> bool:
        """True for a MARS model with the SFT loss, or one whose record does not mention the loss."""
        return self.stage == "mars" and self.sft_loss is not False


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSetting(Open):
    """The setting of a run; the run's id ends in its hash. Only some runs have `harness` and `judged`."""

    model: RunModel
    draft: RunModel | None
    decoder: _Word
    settings: RunSettings
    tasks: Annotated[list[_Word], Field(min_length=1), must_be("names, each once", _differ)]
    problems: _Count
    seed: Annotated[int, Field(ge=0)]
    batch_size: _Count
    dtype: _Word
    device: Literal["cpu", "cuda"]
    timed: bool
    group: _Word | None
    harness: dict[str, Any] = field(default_factory=dict)
    judged: bool = True

    def __post_init__(self) -> None:
        if self.timed != (self.group is not None):
            raise ValueError(f"group must be a name in timed runs and null in others, got {self.group!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunProvenance(Open):
    """The command, machine and versions that made a run, and when."""

    command: _Word
    commit: _Word | None
    hardware: _Word
    threads: _Count
    processes: _Count
    torch: _Word
    transformers: _Word
    python: _Word
    date: Annotated[str, must_be("a date and time with its zone (ISO 8601)", _has_zone)]
    plan: _Word | None


@dataclass(frozen=True, kw_only=True, eq=False)
class RunEntry(RunSetting, RunProvenance):
    """One run of the index. `training` is the training record of its model without the log, where a run keeps it."""

    id: Annotated[str, must_be("a plain file name of letters, digits and ._@+=-", is_id)]
    training: dict[str, Any] | None = None


def short_commit(commit: str | None) -> str:
    """Ten digits of a commit, and whether files differed from it."""
    digits, changed, _ = str(commit).partition("+")
    return digits[:10] + ("+changes" if changed else "")


def cpu_units(hardware: str) -> str:
    """The units for bfloat16 of the CPU of a run, by which its speed differs by several times: "AMX", "no AMX".

    Without them, in older runs or on a GPU, the hardware as it is; but no AMD EPYC has AMX.
    """
    units = hardware.rpartition(" cores, ")[2]
    if "neither AMX" in units or units.startswith("AMD EPYC"):
        return "no AMX"
    return units


OPTIONAL = ("harness", "judged")
MODEL_FIELDS = tuple(each.name for each in fields(RunModel) if each.name != "base")
SETTING = tuple(each.name for each in fields(RunSetting) if each.name not in OPTIONAL)
PROVENANCE = tuple(each.name for each in fields(RunProvenance))


def setting_hash(entry: Mapping[str, Any]) -> str:
    """The end of a run's id: equal for equal settings, different for different ones."""
    setting = {name: entry[name] for name in SETTING} | {name: entry[name] for name in OPTIONAL if name in entry}
    return hashlib.sha256(json.dumps(setting, sort_keys=True, allow_nan=False).encode()).hexdigest()[:10]


def run_id(name: str, setting: Mapping[str, Any]) -> str:
    """The id of a run with this setting, as `_ID` wants it: the name in characters of file names, and the hash."""
    digest = setting_hash(setting)
    return f"{_FOREIGN.sub('-', name).lstrip('._@+=-')[: _LONGEST - len(digest) - 1] or 'model'}.{digest}"


def is_judged(entry: Mapping[str, Any]) -> bool:
    """Whether the answers were judged; else the column `correct` means nothing, and there is no accuracy."""
    return bool(entry.get("judged", True))


def check_entry(entry: Mapping[str, Any], place: str = "") -> None:
    """Raise ValueError, beginning with `place` and the field at fault, unless this is a `RunEntry`."""
    with prefixing_errors(place):
        checked(RunEntry, entry)
