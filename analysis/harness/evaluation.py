"""Runs tasks of the harness, from their plan to the run store; tasks that the store has are not run again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lm_eval
import pandas as pd
from lm_eval import __version__ as harness_version
from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

from analysis.benchmarks.accuracy import shares_of
from analysis.harness.journal import Journal
from analysis.harness.model import GENERATE, GenerationRequest, MarsLM, key_of
from analysis.runs import read_runs
from analysis.runs.files import write_run
from analysis.runs.schema import run_id
from analysis.stats.intervals import Interval, share
from analysis.text_table import Columns, shown
from mars import decoders
from mars.config import DecodingSettings
from mars.schema import prefixing_errors

_PLACE = ("dataset_path", "dataset_name", "dataset_kwargs")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The command line's options for the tasks; `generation` overrides the tasks' own settings of generation.

    `limit` is the number of questions of each task, `metric` a name, or a name and a filter as the harness writes them:
    "exact_match,flexible-extract".
    """

    tasks: tuple[str, ...]
    include_path: Path | None = None
    limit: int | None = None
    num_fewshot: int | None = None
    fewshot_seed: int = 1234
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = True
    system_instruction: str | None = None
    metric: str | None = None
    generation: Mapping[str, Any] | None = None
    confirm_run_unsafe_code: bool = False

    def __post_init__(self) -> None:
        if not self.tasks or not all(self.tasks) or len(set(self.tasks)) < len(self.tasks):
            raise ValueError(f"tasks must be names of tasks, each once, got {','.join(self.tasks)!r}")
        for name, least in (("limit", 1), ("num_fewshot", 0), ("fewshot_seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be >= {least}, got {value}")
        if self.include_path is not None and not self.include_path.is_dir():
            raise ValueError(f"include_path {self.include_path} is not a folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A task as it will be run. `request` is None if no text is generated, as in multiple choice.

    `harness` is the field of that name in the run store.
    """

    name: str
    task: Task
    problems: int
    request: GenerationRequest | None
    harness: dict[str, Any]

    @property
    def metric(self) -> str:
        """The metric and its filter, as the harness writes them."""
        return f"{self.harness['metric']},{self.harness['filter']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One task. `score` is its metric over all questions; `correct` how many answers are right, None where the metric
    does not say that of each; `rows` those of the run store, None where nothing was written. `run` is the id there.
    """

    task: str
    metric: str
    n: int
    score: float
    correct: int | None
    rows: pd.DataFrame | None = None
    run: str | None = None

    @property
    def accuracy(self) -> Interval | None:
        """The share of right answers, with Wilson's 95 % interval."""
        return None if self.correct is None else share(self.correct, self.n)

    def over(self, column: str) -> float | None:
        """The tokens of all answers over the sum of this column; None where nothing was written."""
        return None if self.rows is None else float(self.rows["tokens"].sum() / self.rows[column].sum())

    def told(self) -> dict[str, Any]:
        """The object that `--json` writes."""
        names = ("task", "metric", "n", "score", "correct", "run")
        rates = {"tokens_per_forward": self.over("passes"), "tokens_per_second": self.over("seconds")}
        accuracy = None if self.accuracy is None else asdict(self.accuracy)
        return {**{name: getattr(self, name) for name in names}, "accuracy": accuracy, **rates}


COLUMNS: Columns[Finding] = (
    ("task", lambda each: each.task),
    ("metric", lambda each: each.metric),
    ("n", lambda each: str(each.n)),
    ("score", lambda each: f"{each.score:.4g}" if each.accuracy is None else shares_of(each.accuracy)),
    ("tokens/forward", lambda each: shown(each.over("passes"), ".2f")),
    ("tok/s", lambda each: shown(each.over("seconds"), ".0f")),
)


def load_tasks(options: TaskOptions) -> tuple[TaskManager, dict[str, Task]]:
    """The tasks by name, groups and tags resolved.

    Raises:
        ValueError: there is no such task, or its data cannot be had.
    """
    path = options.include_path and str(options.include_path)
    if path:
        # The harness's own tasks lie in thousands of files: they are read only where they are meant.
        with suppress(KeyError):
            return _load(TaskManager(include_path=path, include_defaults=False), options.tasks)
    try:
        return _load(TaskManager(include_path=path), options.tasks)
    except KeyError as error:
        raise ValueError(
            f"the harness does not know all of the tasks {', '.join(options.tasks)} ({error.args[0]}): choose from "
            "`lm_eval ls tasks`, or give the folder of a task's YAML file with --include-path"
        ) from error


def _load(manager: TaskManager, names: Sequence[str]) -> tuple[TaskManager, dict[str, Task]]:
    tasks: dict[str, Task] = {}
    for name in names:
        try:
            tasks |= manager.load([name])["tasks"]
        except OSError as error:
            raise ValueError(
                f"the data of task {name} cannot be had ({error}): check the network, or give a task with local data "
                "(docs/benchmarks.md)"
            ) from error
    return manager, tasks


def planned(name: str, task: Task, options: TaskOptions, lm: MarsLM) -> Planned:
    """Plan a task: its questions, metric and request.

    Raises:
        ValueError: it asks for what is not supported, or has no such metric.
    """
    if task.config.repeats != 1:
        raise ValueError(f"task {name} asks for {task.config.repeats} answers to each question: only 1 is supported")
    metric, kept = _metric(name, task, options.metric)
    request = None
    if task.OUTPUT_TYPE == GENERATE:
        with prefixing_errors(f"task {name}: "):
            request = lm.request({**task.config.generation_kwargs, **(options.generation or {})})
    questions = [doc for _, doc in task.doc_iterator(limit=options.limit)]
    own = task.config.num_fewshot  # the harness does not change a task that sets 0 itself
    return Planned(
        name=name,
        task=task,
        problems=len(questions),
        request=request,
        harness={
            "version": harness_version,
            "task_version": str(task.VERSION),
            "task_hash": _fingerprint(task, questions),
            "metric": metric,
            "filter": kept,
            "num_fewshot": int(own or 0) if options.num_fewshot is None or own == 0 else options.num_fewshot,
            "limit": options.limit,
            "apply_chat_template": options.apply_chat_template,
            "fewshot_as_multiturn": options.apply_chat_template and options.fewshot_as_multiturn,
            "system_instruction": options.system_instruction,
            "until": list(request.until) if request else [],
        },
    )


def _metric(name: str, task: Task, wanted: str | None) -> tuple[str, str]:
    """The metric and filter that say whether an answer is right: the task's first unless others are wanted."""
    metrics = list(task.higher_is_better())
    filters = [each["name"] for each in task.config.filter_list or [{"name": "none"}]]
    metric, _, kept = (wanted or metrics[0]).partition(",")
    kept = kept or filters[0]
    if metric not in metrics or kept not in filters:
        choices = ", ".join(f"{each},{other}" for each in metrics for other in filters)
        raise ValueError(f"--metric: task {name} has {choices}, got {wanted!r}")
    return metric, kept


def _fingerprint(task: Task, questions: list[Any]) -> str:
    """A hash: the same for the same questions asked in the same way, wherever their data lies."""
    definition = {key: value for key, value in task.dump_config().items() if key not in _PLACE}
    text = json.dumps([definition, questions], default=handle_non_serializable, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def evaluate(
    lm: MarsLM,
    setting: Mapping[str, Any],
    options: TaskOptions,
    loaded: tuple[TaskManager, Mapping[str, Task]],
    folder: Path,
    provenance: Mapping[str, Any],
) -> list[Finding]:
    """Run the tasks, and add the results that the run store can hold to that of `folder`.

    `setting` is that of all their runs, `provenance` completes the entries. After an interruption a call goes on.

    Raises:
        ValueError: a task cannot be run so, or the store cannot be written.
    """
    manager, tasks = loaded
    store = read_runs(folder)
    asked = json.dumps([setting, asdict(options)], default=str, sort_keys=True).encode()
    lm.journal = Journal(folder / f".lm-eval-{hashlib.sha256(asked).hexdigest()[:10]}.jsonl")
    findings = []
    for plan in [planned(name, task, options, lm) for name, task in tasks.items()]:
        entry = setting_entry(setting, plan, options) if plan.request is not None else None
        if entry is not None and entry["id"] in store.frames:
            rows = store.rows(entry["id"])
            right = int(rows["correct"].sum())
            finding = _finding(plan, len(rows), right / len(rows), right, rows, entry["id"])
        else:
            finding = _found(plan, _ask(lm, plan, options, manager), lm.journal)
            if entry is not None and finding.rows is not None and finding.correct is not None:
                write_run(folder, {**entry, **provenance}, finding.rows)
                finding = _finding(plan, finding.n, finding.score, finding.correct, finding.rows, entry["id"])
        findings.append(finding)
    lm.journal.remove()
    return findings


def setting_entry(setting: Mapping[str, Any], plan: Planned, options: TaskOptions) -> dict[str, Any]:
    """The id and the setting of a task's run; only the provenance is missing."""
    if plan.request is None:
        raise ValueError(f"task {plan.name} writes no answers, so there is no run of it")
    settings: DecodingSettings = plan.request.settings
    words = setting["decoder"]
    if decoders.TABLE[words].always_thresholded or settings.continuation:
        words += f"@{settings.threshold}"
    else:
        settings = DecodingSettings(**{**asdict(settings), "threshold": None})
    fields = {
        **setting,
        "settings": asdict(settings),
        "tasks": [plan.name],
        "problems": plan.problems,
        "seed": options.fewshot_seed,
        "timed": False,
        "group": None,
        "harness": plan.harness,
    }
    return {"id": run_id(f"{setting['model']['name']}.{words}-{plan.name}.b{setting['batch_size']}", fields), **fields}


def _ask(lm: MarsLM, plan: Planned, options: TaskOptions, manager: TaskManager) -> dict[str, Any]:
    """The harness's results for a task, every sample included."""
    with prefixing_errors(f"task {plan.name}: "):
        results: dict[str, Any] = lm_eval.simple_evaluate(
            model=lm,
            tasks=[plan.task],
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


def _found(plan: Planned, results: Mapping[str, Any], journal: Journal) -> Finding:
    """The result of one task, from the `results` of the harness.

    Raises:
        ValueError: a question was asked in several requests.
    """
    samples = [sample for sample in results["samples"][plan.name] if sample["filter"] == plan.harness["filter"]]
    values = [sample[plan.harness["metric"]] for sample in samples]
    judged = all(isinstance(value, bool | int | float) and value in (0, 1) for value in values)
    rows = None
    if plan.request is not None:
        if len(samples[0]["arguments"]) != 1:
            raise ValueError(
                f"task {plan.name} asks a question in {len(samples[0]['arguments'])} requests: only one is supported"
            )
        rows = pd.DataFrame(
            [
                {"task": plan.name, "number": sample["doc_id"], "correct": value == 1}
                | journal.results[key_of(sample["arguments"][0])]
                for sample, value in zip(samples, values, strict=True)
            ]
        )
    score = float(results["results"][plan.name][plan.metric])
    return _finding(plan, len(samples), score, sum(map(int, values)) if judged else None, rows)


def _finding(
    plan: Planned, n: int, score: float, correct: int | None, rows: pd.DataFrame | None, run: str | None = None
) -> Finding:
    return Finding(task=plan.name, metric=plan.metric, n=n, score=score, correct=correct, rows=rows, run=run)
