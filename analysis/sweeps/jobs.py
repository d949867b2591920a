"""Runs as jobs: the setting of one with its id, the questions, and how a chunk of them is decoded and judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import chain, product, zip_longest
from typing import Any

from analysis.benchmarks.agreement import gaps_of
from analysis.benchmarks.questions import Families, QuestionSet
from analysis.decoding.answers import Answer, answers
from analysis.runs.schema import DEFAULT_SETTINGS, run_id
from analysis.sweeps.models import ModelKey, describe
from analysis.sweeps.plan import LISTS, Group, SweepPlan, takes
from mars import decoders
from mars.checkpoint import Checkpoint
from mars.checkpoint.checkpoint import choose_device, choose_dtype
from mars.config import DEFAULT_BLOCK_SIZE, DecodingSettings
from mars.decoders import Needs
from mars.schema import prefixing_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: the setting part of its entry with its id, and the data to make it.

    Its questions are cut into chunks. Rows of timed runs say in which turn they were decoded, unless `turns` is false.
    `origin` are further fields of its entry.
    """

    setting: Mapping[str, Any]
    settings: DecodingSettings
    key: ModelKey
    questions: QuestionSet
    chunk: int
    turns: bool = True
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self.setting["id"])

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-len(self.questions) // self.chunk)

    def places(self, chunk: int) -> range:
        """The places of the questions in a chunk."""
        return range(chunk * self.chunk, min((chunk + 1) * self.chunk, len(self.questions)))


Chunk = list[dict[str, Any]]
"""Rows (docs/runs.md) as objects with the columns' names."""


def turns_of(plan: SweepPlan) -> list[list[Job]]:
    """The runs of a plan: those of one timed group and batch size as one list, every other run as a list of its own.

    ValueError where a setting is out of range, or a checkpoint cannot be run so.
    """
    found: dict[str, Job] = {}
    turns: dict[object, list[str]] = {}
    models = cache(describe)
    for group in plan.groups:
        with prefixing_errors(f"group {group.name}: "):
            jobs = list(_jobs(group, plan.name, models))
        for job in jobs:
            if job.id in found:
                continue
            found[job.id] = job
            turn = (job.setting["group"], job.setting["batch_size"]) if group.timed else job.id
            turns.setdefault(turn, []).append(job.id)
    return [[found[run] for run in runs] for runs in turns.values()]


def _jobs(group: Group, plan: str, models: Any) -> Iterator[Job]:
    device = choose_device(group.device)
    dtype = str(choose_dtype(group.dtype, device)).removeprefix("torch.")
    questions = Families(problems=group.problems, seed=group.seed, tasks=group.tasks)
    for batch_size, source, decoder in product(group.batch_sizes, group.checkpoints, group.decoders):
        info = decoders.TABLE[decoder]
        model = models(source)
        _check_stage(decoder, source, model, info.needs)
        for draft in group.drafts if info.draft else (None,):
            drafting = None if draft is None else models(draft)
            for settings in dict.fromkeys(_settings(group, decoder, model, drafting)):
                setting = setting_of(
                    model,
                    decoder,
                    settings,
                    questions,
                    draft=drafting,
                    batch_size=batch_size,
                    dtype=dtype,
                    device=device.type,
                    group=f"{plan}/{group.name}" if group.timed else None,
                )
                yield Job(
                    setting=setting,
                    settings=settings,
                    key=ModelKey(checkpoint=source, draft=draft, dtype=dtype, device=device.type),
                    questions=questions,
                    chunk=group.chunk,
                )


def _check_stage(what: str, source: str, model: Mapping[str, Any], needs: Needs) -> None:
    if needs not in decoders.kinds(masks=model["stage"] == "mars"):
        raise ValueError(f"{what} needs a checkpoint of stage mars, and that of {source} is {model['stage']}")


def _settings(
    group: Group, decoder: str, model: Mapping[str, Any], draft: Mapping[str, Any] | None
) -> Iterator[DecodingSettings]:
    """Every combination of the settings that the decoder takes; lists of other settings are ignored."""
    block_size = model["block_size"] or (draft or {}).get("block_size") or DEFAULT_BLOCK_SIZE
    lists = {key: getattr(group, key) for key in LISTS if takes(decoder, key) and getattr(group, key)}
    base = DecodingSettings(block_size=block_size, threshold=None, max_new_tokens=group.max_new_tokens)
    for values in product(*lists.values()):
        changes = {LISTS[key]: value for key, value in zip(lists, values, strict=True)}
        if draft is not None and draft["stage"] in (None, "sft"):
            changes["threshold"] = None  # nobody writes by a threshold
        yield replace(base, **changes)


def kept_settings(decoder: str, settings: DecodingSettings) -> dict[str, Any]:
    """The settings as runs keep them: what came later or means nothing to the decoder is as ever, so that ids last."""
    kept = DEFAULT_SETTINGS | asdict(settings)
    if kept["window"] == "fixed":
        del kept["window"]
    if "layout" not in decoders.TABLE[decoder].settings:
        kept["layout"] = "auto"
    return kept


def setting_of(
    model: Mapping[str, Any],
    decoder: str,
    settings: DecodingSettings,
    questions: QuestionSet,
    *,
    batch_size: int,
    dtype: str,
    device: str,
    draft: Mapping[str, Any] | None = None,
    group: str | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """The setting of a run (docs/runs.md) with its id, `<model>.<label or decoder words>.b<batch size>.<hash>`.

    Runs of a `group` are timed.
    """
    setting = {
        "model": dict(model),
        "draft": None if draft is None else dict(draft),
        "decoder": decoder,
        "settings": kept_settings(decoder, settings),
        "batch_size": batch_size,
        "dtype": dtype,
        "device": device,
        "timed": group is not None,
        "group": group,
        **questions.fields,
    }
    words = label or _words(decoder, settings) + (f"-{draft['name']}" if draft else "")
    return {"id": run_id(f"{model['name']}.{words}.b{batch_size}", setting), **setting}


def _words(decoder: str, settings: DecodingSettings) -> str:
    words = decoder
    if takes(decoder, "thresholds"):
        words += f"@{'none' if settings.threshold is None else settings.threshold}"
    for key, word in (
        ("block_sizes", f"-b{settings.block_size}"),
        ("cache_block_sizes", f"-c{settings.cache_block_size}"),
        ("draft_tokens", f"-k{settings.draft_tokens}"),
        ("layouts", f"-{settings.layout}"),
    ):
        words += word if takes(decoder, key) else ""
    words += f"-{settings.score}" if settings.score != "probability" else ""
    return words + ("-extra" if settings.extra_proposal else "")


def decode_chunk(checkpoint: Checkpoint, job: Job, places: Sequence[int]) -> Chunk:
    """Ask these questions, turn by turn, each prompt with the decoder's own earlier answers, and judge the answers.

    Where nobody judges, the model reads them again: how many of their tokens does one-token mode write? ValueError
    where the decoder cannot run this checkpoint, or a prompt does not fit its context.
    """
    asked = [job.questions.question(place) for place in places]
    said: list[list[dict[str, str]]] = [[] for _ in asked]
    found: list[list[Answer]] = [[] for _ in asked]
    agreeing = [0 for _ in asked]
    judged = job.setting.get("judged", True)
    decoder, batch_size = job.setting["decoder"], job.setting["batch_size"]
    for turn in range(max(len(question.turns) for question in asked)):
        going = [place for place, question in enumerate(asked) if turn < len(question.turns)]
        for place in going:
            said[place].append({"role": "user", "content": asked[place].turns[turn]})
        prompts = [checkpoint.encode_chat(said[place]) for place in going]
        for number, answer in answers(checkpoint.engine, decoder, job.settings, prompts, batch_size):
            text = checkpoint.decode(answer.ids)
            found[going[number]].append(replace(answer, text=text))
            if not judged:
                gaps = gaps_of(checkpoint.engine, prompts[number], answer.ids)
                agreeing[going[number]] += sum(gap == 0 for gap in gaps)
            said[going[number]].append({"role": "assistant", "content": text.strip()})
    rows = []
    for place, question, parts, agreed in zip(places, asked, found, agreeing, strict=True):
        answer = _joined(parts)
        right = job.questions.is_right(place, answer.text)
        row = {"task": question.task, "number": question.number, "correct": right, **answer.columns()}
        rows.append(row if judged else {**row, "agreeing": agreed})
    return rows


def _joined(turns: Sequence[Answer]) -> Answer:
    """All turns of a question as one answer."""
    lengths = zip_longest(*(turn.acceptance_lengths for turn in turns), fillvalue=0)
    return replace(
        turns[-1],
        ids=tuple(chain.from_iterable(turn.ids for turn in turns)),
        text="\n\n".join(turn.text for turn in turns),
        passes=sum(turn.passes for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
        acceptance_lengths=tuple(sum(times) for times in lengths),
    )


def check_fits(checkpoint: Checkpoint, questions: QuestionSet, max_new_tokens: int) -> None:
    """Raise ValueError if a question does not fit the context of the model with answers of full length."""
    for place in range(len(questions)):
        task, number, turns = questions.question(place)
        said = [{"role": "user", "content": turns[0]}]
        for text in turns[1:]:
            said += [{"role": "assistant", "content": ""}, {"role": "user", "content": text}]
        room = len(checkpoint.encode_chat(said)) + max_new_tokens * len(turns)
        if room > checkpoint.engine.context_length:
            raise ValueError(
                f"question {number} of {task} does not fit: its {len(turns)} turns with answers of {max_new_tokens} "
                f"tokens take {room} tokens, and the context of {checkpoint.name} has "
                f"{checkpoint.engine.context_length}: lower --max-new-tokens, or ask others (--questions, --task)"
            )
