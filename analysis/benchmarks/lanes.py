"""The lanes that answer a benchmark's questions, each a decoder with settings on a checkpoint.

The prompt of a later turn holds the decoder's own earlier answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any

from analysis.benchmarks.questions import Question, fingerprint
from analysis.decoding.answers import Answer, answers
from analysis.decoding.decoder_specs import BASELINE, GENERATE, DecoderSpec, check_runnable, parse_decoder_specs
from analysis.sweeps.models import describe
from mars.checkpoint import Checkpoint, CheckpointError
from mars.config import DecodingSettings
from mars.decoders import STAGES, drafted
from mars.engine import ModelEngine

Message = dict[str, str]
Turns = tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkLane:
    """A decoder on a checkpoint; `model` is the description of the checkpoint for the run store."""

    label: str
    checkpoint: Checkpoint
    model: dict[str, Any]
    spec: DecoderSpec
    settings: DecodingSettings


def parse_decoders(text: str, threshold: float | None) -> list[DecoderSpec]:
    """The decoders of a list such as "autoregressive,sliding_window@0.95", in order, each once.

    `threshold` is for words that can have one and name none.

    Raises:
        ValueError: lists the valid words.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word.split("/")[0] in (GENERATE, *(decoder.name for decoder in drafted())):
            raise ValueError(
                f"decoders must be decoders of one checkpoint, got {word}: `analysis bench` compares with it"
            )
    return list(dict.fromkeys(parse_decoder_specs(word, threshold)[-1] for word in words))


def lanes_of(
    specs: Sequence[DecoderSpec],
    checkpoint: Checkpoint,
    model: dict[str, Any],
    max_new_tokens: int,
    baseline: tuple[Checkpoint, dict[str, Any]] | None = None,
) -> list[BenchmarkLane]:
    """A lane for each spec; with `baseline`, the only autoregressive lane is the first one, on that checkpoint.

    Raises:
        ValueError: a spec cannot run on the checkpoint, or a setting is out of range.
    """
    check_runnable(specs, checkpoint.name, masks=checkpoint.supports_masks)
    if baseline is not None:
        specs = [spec for spec in specs if spec.decoder != BASELINE]
    base = DecodingSettings(block_size=checkpoint.usual_block_size, threshold=None, max_new_tokens=max_new_tokens)
    on = [(spec, checkpoint, model) for spec in specs]
    if baseline is not None:
        on.insert(0, (DecoderSpec(decoder=BASELINE, label=BASELINE), *baseline))
    return [
        BenchmarkLane(label=spec.label, checkpoint=own, model=described, spec=spec, settings=spec.settings(base))
        for spec, own, described in on
    ]


def described(source: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """The model of an entry of the run store: from its files, or from its weights if it is no plain folder.

    The fingerprint covers the record of an adapter, which is not among the weights of the model.
    """
    try:
        found = describe(source)
        return found | {"stage": _stage(found["stage"], checkpoint)}
    except CheckpointError:
        if not isinstance(checkpoint.engine, ModelEngine):
            raise
    state = checkpoint.engine.model.state_dict()
    digest = hashlib.sha256(fingerprint(sorted(checkpoint.record.items())).encode())
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().float().cpu().contiguous().numpy().tobytes())
    return {
        "name": checkpoint.name,
        "fingerprint": digest.hexdigest()[:16],
        "parameters": sum(part.numel() for part in checkpoint.engine.model.parameters()),
        "stage": _stage(checkpoint.record.get("stage"), checkpoint),
        "block_size": checkpoint.block_size,
        "sft_loss": None,
        "examples": None,
    }


def training_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """The field `training` of a run's entry: how the model was trained, without the log; no field without a record."""
    record = {name: value for name, value in checkpoint.record.items() if name != "started_from"}
    if "measured" in record:
        record["measured"] = {name: value for name, value in record["measured"].items() if name != "log"}
    return {"training": record} if record else {}


def _stage(stage: object, checkpoint: Checkpoint) -> object:
    """The stage as the run store has it: an adapter that fills masks counts as MARS."""
    return stage if stage in STAGES else "mars" if checkpoint.supports_masks else None


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
