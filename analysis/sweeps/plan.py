"""Plans of sweeps: TOML files with groups of settings that are multiplied out. See docs/runs.md."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from analysis.benchmarks.questions import Families
from mars import decoders
from mars.config import DecodingSettings
from mars.schema import Strict, checked, prefixing_errors
from mars_tasks import TASKS

SCHEMA = 1
DEFAULTS = ("problems", "seed", "tasks", "batch_sizes", "dtype", "device", "max_new_tokens", "chunk")
"""Keys that a plan may give once for all its groups."""

LISTS = {
    "thresholds": "threshold",
    "scores": "score",
    "block_sizes": "block_size",
    "extra_proposal": "extra_proposal",
    "cache_block_sizes": "cache_block_size",
    "layouts": "layout",
    "draft_tokens": "draft_tokens",
}
"""The keys of a group that list values of a setting, and that setting; a decoder takes those that it reads."""
DRAFTS = "drafts"
_USUAL = DecodingSettings()

# A value alone stands for a list of it.
_LIST = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else (value,))
_SOME = Field(min_length=1)
Word = Annotated[str, _SOME]
Words = Annotated[tuple[Word, ...], _SOME, _LIST]
Counts = Annotated[tuple[int, ...], _SOME, _LIST]
Switches = Annotated[tuple[bool, ...], _SOME, _LIST]
Threshold = Annotated[float | None, BeforeValidator(lambda value: None if value == "none" else value)]
_Families = Annotated[Words, BeforeValidator(lambda value: list(TASKS) if value == "all" else value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Strict):
    """One table of a plan; every combination of its lists is a run.

    A threshold None is one-token mode; no block size means that of the checkpoint. `chunk` is the number of problems
    decoded between two saves. The runs of `timed` groups of the same name take turns.
    """

    name: Word
    checkpoints: Words
    decoders: Words
    problems: int
    seed: int
    drafts: Words = ()
    thresholds: Annotated[tuple[Threshold, ...], _SOME, _LIST] = (_USUAL.threshold,)
    scores: Words = (_USUAL.score,)
    block_sizes: Counts = ()
    cache_block_sizes: Counts = (_USUAL.cache_block_size,)
    layouts: Words = (_USUAL.layout,)
    draft_tokens: Counts = (_USUAL.draft_tokens,)
    extra_proposal: Switches = (_USUAL.extra_proposal,)
    tasks: _Families = tuple(TASKS)
    batch_sizes: Counts = (16,)
    dtype: Word = "auto"
    device: Word = "auto"
    max_new_tokens: int = _USUAL.max_new_tokens
    chunk: int = 96
    timed: bool = False

    def __post_init__(self) -> None:
        for decoder in self.decoders:
            if decoder not in decoders.TABLE:
                raise ValueError(f"decoders must be some of {decoders.names()}, got {decoder!r}")
        Families(problems=self.problems, seed=self.seed, tasks=self.tasks)
        for batch_size in self.batch_sizes:
            if not 1 <= batch_size <= self.chunk:
                raise ValueError(f"batch sizes must be between 1 and the chunk of {self.chunk}, got {batch_size}")
        if any(decoders.TABLE[decoder].draft for decoder in self.decoders) and not self.drafts:
            raise ValueError(f"drafts must name the draft checkpoints of {', '.join(self.decoders)}, got none")


def takes(decoder: str, key: str) -> bool:
    """Whether a decoder reads the setting that the list `key` has values of."""
    info = decoders.TABLE[decoder]
    return info.draft if key == DRAFTS else LISTS[key] in info.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """A plan by the name of its file."""

    name: str
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        first: dict[str, Group] = {}
        for group in self.groups:
            other = first.setdefault(group.name, group)
            for key in ("timed", "problems", "seed", "tasks", "chunk"):
                if group.timed | other.timed and getattr(group, key) != getattr(other, key):
                    raise ValueError(
                        f"group {group.name}: tables with one name take turns, so {key} must be the same in all, got "
                        f"{getattr(other, key)!r} and {getattr(group, key)!r}"
                    )


def read_plan(path: Path) -> SweepPlan:
    """The plan of a file; ValueError names the file, the group and the key at fault."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"there is no plan {path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not TOML: {error}") from error
    with prefixing_errors(f"{path}: "):
        return _plan(path.stem, data)


def _plan(name: str, data: Mapping[str, Any]) -> SweepPlan:
    if data.get("schema") != SCHEMA:
        raise ValueError(f"schema must be {SCHEMA}, got {data.get('schema')!r}")
    tables = data.get("group")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ValueError("a plan needs at least one [[group]]")
    defaults = {key: value for key, value in data.items() if key not in ("schema", "group")}
    _check_keys(defaults, DEFAULTS, "the plan")
    groups = []
    for number, table in enumerate(tables):
        with prefixing_errors(f"group {table.get('name', number + 1)}: "):
            groups.append(_group(table, defaults))
    if len({group.device for group in groups}) > 1:
        raise ValueError("device must be the same in all groups, since runs record one machine: write a plan for each")
    return SweepPlan(name=name, groups=tuple(groups))


def _group(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Group:
    _check_keys(table, [field.name for field in fields(Group)], "a group")
    group: Group = checked(Group, {**defaults, **table})
    for key in (*LISTS, DRAFTS):
        if key in table and not any(takes(decoder, key) for decoder in group.decoders):
            raise ValueError(f"{key} is not a setting of {', '.join(group.decoders)}")
    return group


def _check_keys(table: Iterable[str], known: Iterable[str], where: str) -> None:
    if unknown := [key for key in table if key not in known]:
        raise ValueError(f"{unknown[0]} is not a key of {where}: choose from {', '.join(known)}")
