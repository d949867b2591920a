"""Runs tasks, from plan to run store; results in the store or a journal are not computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager

from analysis.harness.findings import Finding, found, recalled
from analysis.harness.journal import Journal
from analysis.harness.model import MarsLM
from analysis.harness.tasks import Planned, TaskOptions, planned
from analysis.runs import read_runs
from analysis.runs.files import write_run
from analysis.runs.schema import run_id
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings that all tasks of one command share; a task may override some of the decoding `settings`."""

    model: Mapping[str, Any]
    draft: Mapping[str, Any] | None
    decoder: str
    settings: DecodingSettings
    batch_size: int
    dtype: str
    device: str

    def journal_name(self, options: TaskOptions) -> str:
        """A file name that differs for every command that asks for something else."""
        told = json.dumps([asdict(self), asdict(options)], default=str, sort_keys=True)
        return f".lm-eval-{hashlib.sha256(told.encode()).hexdigest()[:10]}.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A finding for each task, in order; `resumed` results were those of a run that was interrupted."""

    findings: tuple[Finding, ...]
    resumed: int


def evaluate(
    checkpoint: Checkpoint,
    setting: Setting,
    options: TaskOptions,
    loaded: tuple[TaskManager, Mapping[str, Task]],
    folder: Path,
    provenance: Mapping[str, Any],
) -> Evaluation:
    """Run the tasks, and add the results that the run store can hold to that of `folder`.

    `provenance` completes the entries. Until the end, a journal in the folder keeps every result; after an interruption
    the same call goes on from there.

    Raises:
        ValueError: a task cannot be run so, or the store cannot be written.
    """
    manager, tasks = loaded
    store = read_runs(folder)
    with Journal(folder / setting.journal_name(options)) as journal:
        resumed = len(journal)
        lm = MarsLM(checkpoint, setting.decoder, setting.settings, batch_size=setting.batch_size, journal=journal)
        plans = [planned(name, task, options, lm) for name, task in tasks.items()]
        entries = {plan.name: setting_entry(setting, plan, options) for plan in plans if plan.request is not None}
        there = {entry["id"] for entry in store.entries}
        stored = {name: entry["id"] for name, entry in entries.items() if entry["id"] in there}
        missing = [plan for plan in plans if plan.name not in stored]
        results = _ask(lm, missing, options, manager) if missing else {}
        findings = {
            plan.name: recalled(plan, store.rows(stored[plan.name]), stored[plan.name])
            for plan in plans
            if plan.name in stored
        }
        for plan in missing:
            finding = found(plan, results, journal)
            if finding.storable:
                entry = entries[plan.name]
                write_run(folder, {**entry, **provenance}, finding.rows)
                finding = replace(finding, run=entry["id"])
            findings[plan.name] = finding
        journal.remove()
    return Evaluation(findings=tuple(findings[plan.name] for plan in plans), resumed=resumed)


def setting_entry(setting: Setting, plan: Planned, options: TaskOptions) -> dict[str, Any]:
    """The id and the setting of a task's run; only the provenance is missing."""
    if plan.request is None:
        raise ValueError(f"task {plan.name} writes no answers, so there is no run of it")
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
    return {"id": run_id(name, fields), **fields}


def _takes_threshold(setting: Setting) -> bool:
    return decoders.TABLE[setting.decoder].always_thresholded or setting.settings.continuation


def _ask(lm: MarsLM, plans: Sequence[Planned], options: TaskOptions, manager: TaskManager) -> dict[str, Any]:
    """The harness's results for these tasks, every sample included."""
    results: dict[str, Any] = lm_eval.simple_evaluate(
        model=lm,
        tasks=[plan.task for plan in plans],
        task_manager=manager,
        num_fewshot=options.num_fewshot,
        limit=options.limit,
        bootstrap_iters=0,
        system_instruction=options.system_instruction,
        apply_chat_template=options.apply_chat_template,
        fewshot_as_multiturn=options.apply_chat_template and options.fewshot_as_multiturn,
        gen_kwargs=dict(options.generation) if options.generation else None,
        fewshot_random_seed=options.fewshot_seed,
        confirm_run_unsafe_code=options.confirm_run_unsafe_code,
    )
    return results
