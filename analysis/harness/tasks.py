"""Tasks of the harness: their questions, the form of the prompts, and the metric that says which answers are right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval import __version__ as harness_version
from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

from analysis.harness.model import GENERATE, GenerationRequest, MarsLM
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
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be >= 1, got {self.limit}")
        if self.num_fewshot is not None and self.num_fewshot < 0:
            raise ValueError(f"num_fewshot must be >= 0, got {self.num_fewshot}")
        if self.fewshot_seed < 0:
            raise ValueError(f"fewshot_seed must be >= 0, got {self.fewshot_seed}")
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
    found: dict[str, Task] = {}
    for name in names:
        try:
            found |= manager.load([name])["tasks"]
        except OSError as error:
            raise ValueError(
                f"the data of task {name} cannot be had ({error}): check the network, or give a task with local data "
                "(docs/benchmarks.md)"
            ) from error
    return manager, found


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
            "num_fewshot": _shots(task, options.num_fewshot),
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


def _shots(task: Task, wanted: int | None) -> int:
    """The number of examples before a question; the harness does not change a task that sets 0 itself."""
    own = task.config.num_fewshot
    return int(own or 0) if wanted is None or own == 0 else wanted


def _fingerprint(task: Task, questions: list[Any]) -> str:
    """A hash: the same for the same questions asked in the same way, wherever their data lies."""
    definition = {key: value for key, value in task.dump_config().items() if key not in _PLACE}
    text = json.dumps([definition, questions], default=handle_non_serializable, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
