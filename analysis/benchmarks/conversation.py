"""Questions of several turns, answered: the prompt of a later turn holds the decoder's own earlier answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question
from analysis.decoding.answers import Answer, answers
from mars.checkpoint import Checkpoint

Message = dict[str, str]
Turns = tuple[Answer, ...]


def converse(lane: BenchmarkLane, questions: Sequence[Question], places: int) -> Iterator[tuple[int, Turns]]:
    """Yield the place of a question and its answers, as soon as it has them all; `places` questions decode at once.

    Raises:
        ValueError: a prompt does not fit, or the decoder cannot run this checkpoint.
    """
    checkpoint = lane.checkpoint
    said: list[list[Message]] = [[] for _ in questions]
    found: list[list[Answer]] = [[] for _ in questions]
    for turn in range(max((len(question.turns) for question in questions), default=0)):
        going = [place for place, question in enumerate(questions) if turn < len(question.turns)]
        for place in going:
            said[place].append(_user(questions[place].turns[turn]))
        prompts = [checkpoint.encode_chat(said[place]) for place in going]
        for number, answer in answers(checkpoint.engine, lane.spec.decoder, lane.settings, prompts, places):
            place, text = going[number], checkpoint.decode(answer.ids)
            found[place].append(replace(answer, text=text))
            said[place].append(_assistant(text))
            if len(found[place]) == len(questions[place].turns):
                yield place, tuple(found[place])


def whole(turns: Turns) -> Answer:
    """All turns of a question as one answer."""
    lengths = zip_longest(*(turn.acceptance_lengths for turn in turns), fillvalue=0)
    return Answer(
        ids=tuple(chain.from_iterable(turn.ids for turn in turns)),
        text="\n\n".join(turn.text for turn in turns),
        passes=sum(turn.passes for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
        model_seconds=sum(turn.model_seconds for turn in turns),
        finish_reason=turns[-1].finish_reason,
        acceptance_lengths=tuple(sum(times) for times in lengths),
    )


def check_fits(checkpoint: Checkpoint, questions: Sequence[Question], max_new_tokens: int) -> None:
    """Raise ValueError if a question does not fit the context of the model with answers of full length."""
    for question in questions:
        said = [message for turn in question.turns[:-1] for message in (_user(turn), _assistant(""))]
        prompt = checkpoint.encode_chat([*said, _user(question.turns[-1])])
        room = len(prompt) + max_new_tokens * len(question.turns)
        if room > checkpoint.engine.context_length:
            raise ValueError(
                f"question {question.number} ({question.category}) does not fit: its {len(question.turns)} turns with "
                f"answers of {max_new_tokens} tokens take {room} tokens, and the context of {checkpoint.name} has "
                f"{checkpoint.engine.context_length}: lower --max-new-tokens, or leave it out"
            )


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text.strip()}
