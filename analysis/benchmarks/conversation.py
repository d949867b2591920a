"""Questions of several turns, answered: the prompt of a later turn holds the decoder's own earlier answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question, parts_of
from analysis.harness.answers import Answer, answers
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding.service import LOOKAHEAD, Service
from mars.metrics import Tally, output_ids

Message = dict[str, str]
PLACES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer: its token ids, end of sequence included, and text; the rest as the columns of the run store."""

    ids: tuple[int, ...]
    text: str
    passes: int
    seconds: float
    model_seconds: float
    finish_reason: str
    acceptance_lengths: tuple[int, ...]

    @classmethod
    def of(cls, answer: Answer, checkpoint: Checkpoint) -> Self:
        """The answer with its text."""
        return cls(text=checkpoint.decode(answer.ids), **asdict(answer))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """From what `asdict` made and JSON kept."""
        lists = {name: tuple(data[name]) for name in ("ids", "acceptance_lengths")}
        return cls(**{**data, **lists})


Turns = tuple[Turn, ...]


def never(_: Sequence[int]) -> bool:
    """False: no string ends an answer, only the end of sequence or the length limit."""
    return False


def converse(lane: BenchmarkLane, questions: Sequence[Question], places: int, turns: int | None = None) -> list[Turns]:
    """The answers to each question, `places` questions at once; `turns` limits the turns.

    Raises:
        ValueError: a prompt does not fit, or the decoder cannot run this checkpoint.
    """
    checkpoint = lane.checkpoint
    said: list[list[Message]] = [[] for _ in questions]
    found: list[list[Turn]] = [[] for _ in questions]
    for turn, numbers in _rounds(questions):
        if turn == turns:
            break
        for number in numbers:
            said[number].append(_user(questions[number].turns[turn]))
        prompts = [checkpoint.encode_chat(said[number]) for number in numbers]
        ended = answers(checkpoint.engine, lane.spec.decoder, lane.settings, prompts, places, new_ends=lambda: never)
        for place, answer in ended:
            found[numbers[place]].append(Turn.of(answer, checkpoint))
        for number in numbers:
            said[number].append(_assistant(found[number][-1].text))
    return [tuple(answered) for answered in found]


def check_fits(checkpoint: Checkpoint, questions: Sequence[Question], max_new_tokens: int) -> None:
    """Raise ValueError if a question does not fit the context of the model with answers of full length."""
    for question in questions:
        room = longest_prompt(checkpoint, question, max_new_tokens)
        if room + max_new_tokens > checkpoint.engine.context_length:
            raise ValueError(
                f"question {question.number} ({question.category}) does not fit: its {len(question.turns)} turns with "
                f"answers of {max_new_tokens} tokens take {room + max_new_tokens} tokens, and the context of "
                f"{checkpoint.name} has {checkpoint.engine.context_length}: lower --max-new-tokens, or leave it out"
            )


def longest_prompt(checkpoint: Checkpoint, question: Question, max_new_tokens: int) -> int:
    """Tokens of the last turn's prompt, with earlier answers of full length."""
    said = []
    for turn in question.turns[:-1]:
        said += [_user(turn), _assistant("")]
    prompt = checkpoint.encode_chat([*said, _user(question.turns[-1])])
    return len(prompt) + max_new_tokens * (len(question.turns) - 1)


def acceptance(
    checkpoint: Checkpoint,
    questions: Sequence[Question],
    settings: DecodingSettings,
    decoder: str = "self_speculative",
    places: int = PLACES,
) -> dict[str, float]:
    """Accepted tokens per pass for each part of the questions (`parts_of`), without timing: for use while training.

    All questions of a turn share the passes of a service with `places` places.

    Raises:
        ValueError: a prompt does not fit, or the decoder cannot share passes or run this checkpoint.
    """
    check_fits(checkpoint, questions, settings.max_new_tokens)
    longest = max(longest_prompt(checkpoint, question, settings.max_new_tokens) for question in questions)
    service = Service(checkpoint.engine, places, longest + settings.max_new_tokens + LOOKAHEAD)
    said: list[list[Message]] = [[] for _ in questions]
    counts = {question.number: (0, 0) for question in questions}
    for turn, numbers in _rounds(questions):
        for number in numbers:
            said[number].append(_user(questions[number].turns[turn]))
        streams = {
            number: service.submit(decoder, checkpoint.encode_chat(said[number]), settings) for number in numbers
        }
        for number, stream in streams.items():
            records = list(stream)
            tally = Tally.of(records)
            tokens, passes = counts[questions[number].number]
            counts[questions[number].number] = tokens + tally.tokens, passes + tally.passes
            said[number].append(_assistant(checkpoint.decode(output_ids(records))))
    return {name: _rate([counts[each.number] for each in part]) for name, part in parts_of(questions).items()}


def _rounds(questions: Sequence[Question]) -> list[tuple[int, list[int]]]:
    """Each turn with the places of the questions that have it."""
    most = max((len(question.turns) for question in questions), default=0)
    return [(turn, [i for i, each in enumerate(questions) if turn < len(each.turns)]) for turn in range(most)]


def _rate(counts: Sequence[tuple[int, int]]) -> float:
    return sum(tokens for tokens, _ in counts) / sum(passes for _, passes in counts)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text.strip()}
