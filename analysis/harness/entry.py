"""The entry of a task in the index of the run store (docs/runs.md)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.harness.tasks import Planned, TaskOptions
from analysis.runs.schema import setting_hash
from mars import decoders
from mars.config import DecodingSettings

_FOREIGN = re.compile(r"[^A-Za-z0-9._@+=-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The part that all tasks of one command share; `settings` holds but for what a task decides itself."""

    model: Mapping[str, Any]
    draft: Mapping[str, Any] | None
    decoder: str
    settings: DecodingSettings
    batch_size: int
    dtype: str
    device: str

    def journal_name(self, options: TaskOptions) -> str:
        """A file name of its own for every command that asks for something else."""
        told = json.dumps([asdict(self), asdict(options)], default=str, sort_keys=True)
        return f".lm-eval-{hashlib.sha256(told.encode()).hexdigest()[:10]}.jsonl"


def setting_entry(setting: Setting, plan: Planned, options: TaskOptions) -> dict[str, Any]:
    """The id and the setting of a task's run; what is missing is the provenance."""
    if plan.request is None:
        raise ValueError(f"task {plan.name} writes nothing, so that there is no run of it")
    settings = plan.request.settings
    if not _takes_threshold(setting):
        settings = replace(settings, threshold=None)
    fields = {
        "model": dict(setting.model),
        "draft": None if setting.draft is None else dict(setting.draft),
        "decoder": setting.decoder,
        "settings": asdict(settings),
        "tasks": [plan.name],
        "problems": plan.problems,
        "seed": options.fewshot_seed,
        "batch_size": setting.batch_size,
        "dtype": setting.dtype,
        "device": setting.device,
        "timed": False,
        "group": None,
        "harness": plan.harness,
    }
    threshold = f"@{settings.threshold}" if _takes_threshold(setting) else ""
    name = f"{setting.model['name']}.{setting.decoder}{threshold}-{plan.name}.b{setting.batch_size}"
    return {"id": f"{_FOREIGN.sub('-', name)}.{setting_hash(fields)}", **fields}


def _takes_threshold(setting: Setting) -> bool:
    return decoders.TABLE[setting.decoder].always_thresholded or setting.settings.continuation
