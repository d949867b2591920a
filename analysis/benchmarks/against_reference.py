"""Our texts against those of a reference on the untouched base, token by token.

The reference is `generate` of transformers or our own AR decoding, one prompt at a time. In float32 the texts must be
the same, and with invariant passes in bfloat16 too if the reference is our AR. Else two tokens can be nearly tied in
bfloat16, and then the shape of a pass decides. So where texts first differ, the gap between the two best logits shows
how near a tie it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question
from analysis.decoding.answers import texts
from analysis.decoding.timed import logits_of
from analysis.harness.journal import Journal
from mars.decoding.base import Prompts
from mars.decoding.pool import shared_tokens
from mars.engine import Engine

NEAR_TIE = 0.25
"""Logits: twice the step of bfloat16 between 16 and 32."""
CHUNK = 16
"""Batches that are decoded between two entries of the journal."""

Texts = dict[int, tuple[int, ...]]
"""Token ids by the number of the question, end of sequence included."""
Reference = Callable[[Prompts], Sequence[Sequence[int]]]
"""Writes the texts of some prompts."""
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference of a text: question, token counted from 0, our token and theirs (None: the text had ended).

    `gap` is that of the two best logits there, from one pass of our model over the prompt and the common text.
    """

    question: int
    token: int
    ours: int | None
    theirs: int | None
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A decoder at a batch size compared with the reference, on n prompts with so many tokens."""

    label: str
    batch_size: int
    n: int
    tokens: int
    differences: tuple[Difference, ...]

    @property
    def identical(self) -> int:
        """Texts with exactly the tokens of the reference."""
        return self.n - len(self.differences)

    @property
    def wide(self) -> int:
        """Differences that are not near-ties."""
        return sum(difference.gap > NEAR_TIE for difference in self.differences)


def compare(
    reference: Reference,
    lanes: Sequence[BenchmarkLane],
    questions: Sequence[Question],
    batch_sizes: Sequence[int],
    journal: Journal,
    progress: Progress,
) -> Iterator[Comparison]:
    """Compare each lane at each batch size on the first turns; `progress` is called for each text, the reference's too.

    Texts that the journal has are not written again.

    Raises:
        ValueError: a prompt does not fit, or a decoder cannot run its checkpoint.
    """
    prompts = {question.number: lanes[0].checkpoint.encode(question.turns[0]) for question in questions}
    expected = _texts("reference", prompts, 1, journal, progress, reference)
    for batch_size in batch_sizes:
        for lane in lanes:
            engine, name = lane.checkpoint.engine, f"{lane.label} b{batch_size}"
            write = partial(texts, engine, lane.spec.decoder, lane.settings, places=batch_size)
            found = _texts(name, prompts, batch_size * CHUNK, journal, progress, write)
            differences = [
                each
                for number, prompt in prompts.items()
                if (each := _difference(engine, number, prompt, found[number], expected[number]))
            ]
            yield Comparison(
                label=lane.label,
                batch_size=batch_size,
                n=len(prompts),
                tokens=sum(map(len, expected.values())),
                differences=tuple(differences),
            )


def _texts(
    name: str,
    prompts: Mapping[int, Sequence[int]],
    size: int,
    journal: Journal,
    progress: Progress,
    write: Reference,
) -> Texts:
    """The texts of all prompts, `size` between two entries of the journal."""
    numbers = list(prompts)
    found: Texts = {}
    for first in range(0, len(numbers), size):
        chunk = numbers[first : first + size]
        key = f"{name} {','.join(map(str, chunk))}"
        if key not in journal:
            journal.add(key, [list(text) for text in write([prompts[number] for number in chunk])])
        found |= {number: tuple(text) for number, text in zip(chunk, journal[key], strict=True)}
        progress(len(chunk))
    return found


def _difference(
    engine: Engine, number: int, prompt: Sequence[int], ours: tuple[int, ...], theirs: tuple[int, ...]
) -> Difference | None:
    if ours == theirs:
        return None
    shared = shared_tokens(ours, theirs)
    return Difference(
        question=number,
        token=shared,
        ours=ours[shared] if shared < len(ours) else None,
        theirs=theirs[shared] if shared < len(theirs) else None,
        gap=top_gap(engine, [*prompt, *ours[:shared]]),
    )


def top_gap(engine: Engine, ids: Sequence[int]) -> float:
    """The best logit minus the second best for the token after `ids`, in one pass over all of them."""
    best, second = logits_of(engine, ids, 1)[0].topk(2).values.tolist()
    return float(best - second)
