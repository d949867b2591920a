"""Our texts against those of `generate` of transformers on the untouched base, token by token.

In float32 they must be the same. In bfloat16 two tokens can be as good as tied, and the shape of a pass decides: so
where texts part, the gap of the two best logits says how near a tie it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question
from analysis.decoding.continuous import is_continuous, run
from analysis.decoding.timed import Generate
from analysis.harness.journal import Journal
from mars.engine import Engine
from mars.engine.window import Window
from mars.metrics import output_ids

NEAR_TIE = 0.25
"""Logits: twice the step of bfloat16 between 16 and 32."""
CHUNK = 16
"""Batches that are decoded between two entries of the journal."""

Texts = dict[int, tuple[int, ...]]
"""Token ids by the number of the question, end of sequence included."""
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where a text first differs: the question, the token counted from 0, ours and theirs (None: the text had ended).

    `gap` is that of the two best logits there, as our model gives them in one pass over the prompt and what both wrote.
    """

    question: int
    token: int
    ours: int | None
    theirs: int | None
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A decoder at a batch size against `generate`, on n prompts with so many tokens."""

    label: str
    batch_size: int
    n: int
    tokens: int
    differences: tuple[Difference, ...]

    @property
    def identical(self) -> int:
        """Texts with the very tokens of `generate`."""
        return self.n - len(self.differences)

    @property
    def wide(self) -> int:
        """Differences that are no near-ties."""
        return sum(difference.gap > NEAR_TIE for difference in self.differences)


def compare(
    generate: Generate,
    lanes: Sequence[BenchmarkLane],
    questions: Sequence[Question],
    batch_sizes: Sequence[int],
    journal: Journal,
    progress: Progress,
) -> Iterator[Comparison]:
    """Each lane at each batch size, on the first turns; `progress` is told of each text, those of `generate` included.

    Texts that the journal has are not written again.

    Raises:
        ValueError: a prompt does not fit, or a decoder cannot run its checkpoint.
    """
    prompts = {question.number: lanes[0].checkpoint.encode(question.turns[0]) for question in questions}
    expected = _texts("generate", prompts, 1, journal, progress, generate.texts)
    for batch_size in batch_sizes:
        for lane in lanes:
            name, size = f"{lane.label} b{batch_size}", batch_size * CHUNK
            found = _texts(name, prompts, size, journal, progress, partial(_decode, lane, batch_size))
            differences = [
                each
                for number, prompt in prompts.items()
                if (each := _difference(lane.checkpoint.engine, number, prompt, found[number], expected[number]))
            ]
            yield Comparison(
                label=lane.label,
                batch_size=batch_size,
                n=len(prompts),
                tokens=sum(map(len, expected.values())),
                differences=tuple(differences),
            )


def _decode(lane: BenchmarkLane, places: int, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """The texts of a lane, `places` prompts at once."""
    engine, decoder = lane.checkpoint.engine, lane.spec.decoder
    step = len(prompts) if is_continuous(decoder) else places
    texts: list[list[int]] = []
    for first in range(0, len(prompts), step):
        batch = prompts[first : first + step]
        records = list(run(engine, decoder, lane.settings, batch, places))
        texts += [output_ids(records, row) for row in range(len(batch))]
    return texts


def _texts(
    name: str,
    prompts: Mapping[int, Sequence[int]],
    size: int,
    journal: Journal,
    progress: Progress,
    write: Callable[[Sequence[Sequence[int]]], Sequence[Sequence[int]]],
) -> Texts:
    """The texts of all prompts, `size` between two entries of the journal."""
    numbers = list(prompts)
    texts: Texts = {}
    for first in range(0, len(numbers), size):
        chunk = numbers[first : first + size]
        key = f"{name} {','.join(map(str, chunk))}"
        if key not in journal:
            journal.add(key, [list(text) for text in write([prompts[number] for number in chunk])])
        texts |= {number: tuple(text) for number, text in zip(chunk, journal[key], strict=True)}
        progress(len(chunk))
    return texts


def _difference(
    engine: Engine, number: int, prompt: Sequence[int], ours: tuple[int, ...], theirs: tuple[int, ...]
) -> Difference | None:
    if ours == theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    return Difference(
        question=number,
        token=shared,
        ours=ours[shared] if shared < len(ours) else None,
        theirs=theirs[shared] if shared < len(theirs) else None,
        gap=top_gap(engine, [*prompt, *ours[:shared]]),
    )


def top_gap(engine: Engine, ids: Sequence[int]) -> float:
    """The best logit minus the second best for the token after `ids`, in one pass over all of them."""
    ids_1Q = torch.tensor([list(ids)], device=engine.device)
    length = ids_1Q.shape[1]
    slots_1Q = torch.arange(1, length + 1, device=engine.device)[None]
    window = Window(ids_RQ=ids_1Q, slots_RQ=slots_1Q, extent=length + 1, keep=1)
    best, second = engine.open(1, length).forward(window)[0, -1].topk(2).values.tolist()
    return float(best - second)
