"""IFEval run: chunks of prompts, the lanes taking turns, every answer in the journal at once; and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from analysis.benches.bench import rotated
from analysis.benchmarks.conversation import Turn, check_fits, never
from analysis.benchmarks.ifeval import Check, Prompt
from analysis.benchmarks.lanes import BenchmarkLane, BenchmarkSetup, digest, setting_entry
from analysis.harness.answers import answers
from analysis.harness.journal import Journal
from analysis.stats import Interval, PairedDifference, paired_difference, share
from analysis.stats.resampling import ratio_of_sums, tokens_per_forward, tokens_per_second
from analysis.stats.turns import FEWEST
from analysis.text_table import aligned

TASK = "ifeval"
METRIC = "prompt_level_strict_acc"
CHUNK = 8
"""Batches that a lane decodes before it is the turn of the next, at most: the end of a chunk has free places."""
WARM_UP_TOKENS = 16
HEADING = (
    *("decoder", "prompts followed", "95 % interval", "instructions", "95 % interval"),
    *("points to AR", "95 % interval", "tokens/forward", "tok/s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IFEval:
    """The prompts and who answers them, `batch_size` at once; `timed`: alone on the machine, so that speeds compare."""

    lanes: Sequence[BenchmarkLane]
    prompts: Sequence[Prompt]
    batch_size: int
    setup: BenchmarkSetup
    timed: bool = False

    def __post_init__(self) -> None:
        for lane in {id(lane.checkpoint): lane for lane in self.lanes}.values():
            check_fits(lane.checkpoint, [prompt.question for prompt in self.prompts], lane.settings.max_new_tokens)

    @property
    def digest(self) -> str:
        """The same for every run that measures the same."""
        return digest(self.lanes, self.setup, len(self.prompts), self.batch_size)

    def entry(self, lane: BenchmarkLane) -> dict[str, Any]:
        """Id and setting of a lane's run in the run store."""
        group = f"{TASK}/{self.digest}" if self.timed else None
        return setting_entry(lane, self.setup, len(self.prompts), self.batch_size, group)

    def answers(
        self, lanes: Sequence[BenchmarkLane], journal: Journal, progress: Callable[[int], object] | None = None
    ) -> dict[str, dict[int, Turn]]:
        """The answers of these lanes by label and key; those of the journal are not asked for again.

        Raises:
            ValueError: a decoder cannot run its checkpoint.
        """
        size = self._chunk
        for place, first in enumerate(range(0, len(self.prompts), size)):
            for lane in rotated(lanes, place):
                chunk = self.prompts[first : first + size]
                missing = [prompt for prompt in chunk if _key(lane, prompt) not in journal]
                if progress is not None:
                    progress(len(chunk) - len(missing))
                self._ask(lane, missing, journal, progress, warm=place == 0)
        return {
            lane.label: {prompt.key: Turn.from_dict(journal[_key(lane, prompt)]) for prompt in self.prompts}
            for lane in lanes
        }

    def turn(self, place: int) -> int:
        """The turn in which a lane answers the prompt at this place."""
        return place // self._chunk

    @property
    def _chunk(self) -> int:
        """Prompts that a lane answers before it is the turn of the next; timed runs need some turns for an interval."""
        batches = min(CHUNK, len(self.prompts) // (FEWEST * self.batch_size)) if self.timed else CHUNK
        return max(1, batches) * self.batch_size

    def _ask(
        self,
        lane: BenchmarkLane,
        prompts: Sequence[Prompt],
        journal: Journal,
        progress: Callable[[int], object] | None,
        *,
        warm: bool,
    ) -> None:
        if not prompts:
            return
        checkpoint = lane.checkpoint
        encoded = [checkpoint.encode(prompt.text) for prompt in prompts]

        def decode(settings: Any, some: Sequence[Sequence[int]]) -> Any:
            return answers(checkpoint.engine, lane.spec.decoder, settings, some, self.batch_size, lambda: never)

        if warm:
            short = replace(lane.settings, max_new_tokens=min(lane.settings.max_new_tokens, WARM_UP_TOKENS))
            list(decode(short, encoded[: self.batch_size]))
        for number, answer in decode(lane.settings, encoded):
            journal.add(_key(lane, prompts[number]), asdict(Turn.of(answer, checkpoint)))
            if progress is not None:
                progress(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A lane on n prompts: shares of prompts and of instructions that were followed, with their counts.

    The interval of the instructions resamples prompts, whose instructions are no independent trials. `difference` is
    that of the prompts to the autoregressive lane, in points, None without one.
    """

    label: str
    n: int
    followed: int
    prompts: Interval
    instructions_n: int
    instructions_followed: int
    instructions: Interval
    tokens_per_forward: Interval
    tokens_per_second: Interval
    difference: PairedDifference | None


def rows_of(prompts: Sequence[Prompt], answered: Mapping[int, Turn], check: Check) -> pd.DataFrame:
    """The rows of the run store: right is who follows all instructions."""
    rows = []
    for prompt in prompts:
        turn = answered[prompt.key]
        kept = {name: value for name, value in asdict(turn).items() if name != "ids"}
        followed = all(check(prompt, turn.text))
        rows.append({"task": TASK, "number": prompt.key, "correct": followed, "tokens": len(turn.ids), **kept})
    return pd.DataFrame(rows)


def figures(
    label: str, prompts: Sequence[Prompt], rows: pd.DataFrame, check: Check, baseline: pd.DataFrame | None
) -> Figures:
    """The figures of a run from its rows; instructions are checked in its texts."""
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
    right = int(rows["correct"].sum())
    return Figures(
        label=label,
        n=len(rows),
        followed=right,
        prompts=share(right, len(rows)),
        instructions_n=int(counts["given"].sum()),
        instructions_followed=int(counts["followed"].sum()),
        instructions=ratio_of_sums(counts, "followed", "given"),
        tokens_per_forward=tokens_per_forward(rows),
        tokens_per_second=tokens_per_second(rows),
        difference=None if baseline is None else paired_difference(rows, baseline),
    )


def to_table(found: Sequence[Figures]) -> str:
    """A line for each lane, columns aligned."""
    return aligned([HEADING, *map(_line, found)])


def to_dict(found: Figures) -> dict[str, Any]:
    """The object that `--json` writes for a lane."""
    told = asdict(found)
    if found.difference is not None:
        told["difference"] |= {"score_interval": asdict(found.difference.score_interval())}
    return told


def _line(found: Figures) -> tuple[str, ...]:
    difference = None if found.difference is None else found.difference.score_interval()
    return (
        found.label,
        f"{found.followed}/{found.n}",
        f"{found.prompts.low:.1%} to {found.prompts.high:.1%}",
        f"{found.instructions_followed}/{found.instructions_n}",
        f"{found.instructions.low:.1%} to {found.instructions.high:.1%}",
        "–" if difference is None else f"{difference.value:+.1f}",
        "–" if difference is None else f"{difference.low:+.1f} to {difference.high:+.1f}",
        f"{found.tokens_per_forward.value:.2f}",
        f"{found.tokens_per_second.value:.0f}",
    )


def _key(lane: BenchmarkLane, prompt: Prompt) -> str:
    return f"{lane.label} {prompt.key}"
