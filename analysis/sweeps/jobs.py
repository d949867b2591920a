"""The runs that a plan asks for, each once, and the decoding of a chunk of their problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from analysis.decoding.answers import answers
from analysis.runs.schema import run_id
from analysis.sweeps.models import Key, describe
from analysis.sweeps.plan import LISTS, Group, SweepPlan
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import choose_device, choose_dtype
from mars.config import DEFAULT_BLOCK_SIZE, DecodingSettings
from mars.decoders import Needs
from mars.schema import prefixing_errors
from mars.tasks import TASKS, Problem, numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: the setting part of its entry with its id, and the data to make it.

    Its problems are numbered over the families in turn and cut into chunks of `chunk` problems.
    """

    setting: Mapping[str, Any]
    settings: DecodingSettings
    key: Key
    chunk: int
    proposals: bool

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self.setting["id"])

    @property
    def problems(self) -> int:
        """Problems of all families."""
        return int(self.setting["problems"]) * len(self.setting["tasks"])

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.problems // self.chunk)

    def places(self, chunk: int) -> range:
        """The numbers of the problems in a chunk."""
        return range(chunk * self.chunk, min((chunk + 1) * self.chunk, self.problems))

    def problem(self, place: int) -> tuple[int, Problem]:
        """The number of a problem in its family, and the problem."""
        number, family = divmod(place, len(self.setting["tasks"]))
        return number, numbered(self.setting["tasks"][family], self.setting["seed"], number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows (docs/runs.md) as objects with the columns' names; `proposals` likewise, None where they are not kept."""

    rows: list[dict[str, Any]]
    proposals: list[dict[str, Any]] | None


def turns_of(plan: SweepPlan) -> list[list[Job]]:
    """The runs of a plan: those of one timed group and batch size as one list, every other run as a list of its own.

    Raises:
        ValueError: a setting is out of range, or a checkpoint cannot be run so.
    """
    found: dict[str, Job] = {}
    turns: dict[object, list[str]] = {}
    models = cache(describe)
    for group in plan.groups:
        with prefixing_errors(f"group {group.name}: "):
            jobs = list(_jobs(group, plan.name, models))
        for job in jobs:
            if job.id in found:
                kept = found[job.id]
                found[job.id] = replace(kept, proposals=kept.proposals or job.proposals)
                continue
            found[job.id] = job
            turn = (job.setting["group"], job.setting["batch_size"]) if group.timed else job.id
            turns.setdefault(turn, []).append(job.id)
    return [[found[run] for run in runs] for runs in turns.values()]


def _jobs(group: Group, plan: str, models: Any) -> Iterator[Job]:
    device = choose_device(group.device)
    dtype = str(choose_dtype(group.dtype, device)).removeprefix("torch.")
    for batch_size, source, decoder in product(group.batch_sizes, group.checkpoints, group.decoders):
        info = decoders.TABLE[decoder]
        model = models(source)
        _check_stage(decoder, source, model, info.needs)
        for draft in group.drafts if info.draft else (None,):
            drafting = None if draft is None else models(draft)
            for settings in dict.fromkeys(_settings(group, decoder, model, drafting)):
                if settings.continuation:
                    _check_stage("continuation", source, model, "masks")
                setting = {
                    "model": model,
                    "draft": drafting,
                    "decoder": decoder,
                    "settings": asdict(settings),
                    "tasks": list(group.tasks),
                    "problems": group.problems,
                    "seed": group.seed,
                    "batch_size": batch_size,
                    "dtype": dtype,
                    "device": device.type,
                    "timed": group.timed,
                    "group": f"{plan}/{group.name}" if group.timed else None,
                }
                yield Job(
                    setting={"id": _id(group, setting), **setting},
                    settings=settings,
                    key=(source, draft, dtype, device.type),
                    chunk=group.chunk,
                    proposals=group.proposals,
                )


def _check_stage(what: str, source: str, model: Mapping[str, Any], needs: Needs) -> None:
    if needs not in decoders.kinds_after(model["stage"]):
        known = " or ".join(stage for stage in decoders.STAGES if needs in decoders.kinds_after(stage))
        raise ValueError(f"{what} needs a checkpoint of stage {known}, and that of {source} is {model['stage']}")


def _settings(
    group: Group, decoder: str, model: Mapping[str, Any], draft: Mapping[str, Any] | None
) -> Iterator[DecodingSettings]:
    """Every combination of the settings that the decoder takes; lists of other settings are ignored."""
    block_size = model["block_size"] or (draft or {}).get("block_size") or DEFAULT_BLOCK_SIZE
    lists = {key: getattr(group, key) for key in LISTS if group.takes(decoder, key) and getattr(group, key)}
    base = DecodingSettings(block_size=block_size, threshold=None, max_new_tokens=group.max_new_tokens)
    for values in product(*lists.values()):
        changes = {LISTS[key]: value for key, value in zip(lists, values, strict=True)}
        if draft is not None and draft["stage"] in (None, "sft") and not changes["continuation"]:
            changes["threshold"] = None  # nobody writes by a threshold
        yield replace(base, **changes)


def _id(group: Group, setting: Mapping[str, Any]) -> str:
    """`<model>.<decoder words>.b<batch size>.<hash>`."""
    settings, decoder = setting["settings"], setting["decoder"]
    words = str(decoder)
    if group.takes(decoder, "thresholds"):
        words += f"@{'none' if settings['threshold'] is None else settings['threshold']}"
    for key, word in (
        ("block_sizes", f"-b{settings['block_size']}"),
        ("cache_block_sizes", f"-c{settings['cache_block_size']}"),
        ("draft_tokens", f"-k{settings['draft_tokens']}"),
        ("layouts", f"-{settings['layout']}"),
    ):
        words += word if group.takes(decoder, key) else ""
    words += f"-{settings['score']}" if settings["score"] != "probability" else ""
    words += "-extra" if settings["extra_proposal"] else ""
    words += "-continuation" if settings["continuation"] else ""
    words += f"-{setting['draft']['name']}" if setting["draft"] else ""
    name = f"{setting['model']['name']}.{words}.b{setting['batch_size']}"
    return run_id(name, setting)


def decode_chunk(checkpoint: Checkpoint, job: Job, places: Sequence[int]) -> Chunk:
    """Decode these problems of a run, and check the answers.

    Raises:
        ValueError: the decoder cannot run this checkpoint, or a prompt does not fit its context.
    """
    problems = [job.problem(place) for place in places]
    prompts = [checkpoint.encode(problem.prompt) for _, problem in problems]
    decoder, batch_size = job.setting["decoder"], job.setting["batch_size"]
    found = dict(answers(checkpoint.engine, decoder, job.settings, prompts, batch_size, masks=job.proposals))
    rows, proposals = [], []
    for place, (number, problem) in enumerate(problems):
        answer = replace(found[place], text=checkpoint.decode(found[place].ids))
        where = {"task": problem.task, "number": number}
        rows.append({**where, "correct": TASKS[problem.task].check(problem, answer.text), **answer.columns()})
        proposals += [
            {**where, "depth": depth, "score": score, "agrees": answer.ids[position] == token}
            for position, depth, score, token in answer.masks
            if position < len(answer.ids)  # the others are past the end
        ]
    return Chunk(rows=rows, proposals=proposals if job.proposals else None)
