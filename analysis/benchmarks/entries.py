"""The entries of a benchmark in the index of the run store (docs/runs.md)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.benchmarks.lanes import BenchmarkLane
from analysis.runs.schema import setting_hash

_FOREIGN = re.compile(r"[^A-Za-z0-9._@+=-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSetup:
    """A benchmark as run: its task, the `fingerprint` of its questions, the first `limit` of them or of a category.

    `metric` says what a right answer is, None where nobody judges; `threads` are those of torch.
    """

    task: str
    fingerprint: str
    limit: int | None
    metric: str | None
    dtype: str
    device: str
    threads: int
    checked_by: str | None = None


def digest(lanes: Sequence[BenchmarkLane], setup: BenchmarkSetup, problems: int, batch_size: int) -> str:
    """10 hex digits: the same for a run that measures the same; its journal and its timed group have them in a name."""
    who = [(lane.label, lane.model["fingerprint"], asdict(lane.settings)) for lane in lanes]
    told = json.dumps([who, asdict(setup), problems, batch_size], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:10]


def setting_entry(
    lane: BenchmarkLane,
    setup: BenchmarkSetup,
    problems: int,
    batch_size: int,
    group: str | None,
    *,
    judged: bool = True,
) -> dict[str, Any]:
    """The id and the setting of a lane's run, timed where it has a group; what is missing is the provenance."""
    harness = {
        "task_hash": setup.fingerprint,
        "limit": setup.limit,
        "metric": setup.metric,
        "checked_by": setup.checked_by,
        "apply_chat_template": True,
    }
    fields = {
        "model": dict(lane.model),
        "draft": None,
        "decoder": lane.spec.decoder,
        "settings": asdict(lane.settings),
        "tasks": [setup.task],
        "problems": problems,
        "seed": 0,
        "batch_size": batch_size,
        "dtype": setup.dtype,
        "device": setup.device,
        "timed": group is not None,
        "group": group,
        "harness": harness,
    }
    if not judged:
        fields["judged"] = False
    name = f"{lane.model['name']}.{lane.label}-{setup.task}.b{batch_size}"
    return {"id": f"{_FOREIGN.sub('-', name)}.{setting_hash(fields)}", **fields}
