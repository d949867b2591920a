"""The lanes of a run before they write: settings, checkpoints, and the reason why one of them cannot take part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from app.compare import stream
from app.compare.lane_choice import LANE_KEYS, LaneChoice, acting, to_settings
from app.models.manager import Models
from app.models.sentences import error_sentence, in_words
from app.runs.run import Turn
from mars.config import DEFAULTS, SETTINGS, LayoutName

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

_NOTED = "score window extra_proposal cache_block_size draft_tokens draft temperature top_p".split()
_ALWAYS_NOTED = {"draft_tokens", "draft"}
_DRAFTS_WITH: dict[LayoutName, str] = {
    "auto": "masks, copies or nothing, whatever pays",
    "linear": "masks behind the last draft",
    "quadratic": "masks behind every draft",
    "tree": "masks behind likely drafts",
    "lookup": "masks and copies",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest:
    """One lane; once loaded, it has its `checkpoint`, paired with its draft, or the `problem` why it cannot write."""

    key: str
    title: str
    choice: LaneChoice
    checkpoint: Checkpoint | None = None
    problem: str | None = None

    def card(self, earlier: Sequence[Turn] = (), answer_prefix: str = "") -> stream.Card:
        """Its card after `earlier` turns; its answer goes on from `answer_prefix`."""
        choice, loaded = self.choice, None if self.problem else self.checkpoint
        return stream.Card(
            key=self.key,
            family=choice.family,
            title=self.title,
            checkpoint=choice.checkpoint,
            decoder=choice.decoder,
            score=choice.score,
            settings=asdict(choice),
            note=self._note(),
            hint=choice.info.line,
            problem=self.problem,
            inactive=why_one_token(choice, loaded) if loaded else None,
            earlier=[(turn.prompt, turn.answer) for turn in earlier],
            answer_prefix=answer_prefix,
        )

    def _note(self) -> str:
        """The decoder, the settings that differ from the defaults, and the device."""
        choice, acts = self.choice, acting(self.choice.decoder, self.choice.temperature)
        parts = [choice.info.title]
        block_size = choice.block_size or (self.checkpoint.block_size if self.checkpoint else None)
        if "block_size" in acts and block_size:
            parts.append(SETTINGS["block_size"].note.format(block_size))
        if choice.info.heeds_threshold and not choice.follows:
            one = choice.threshold is None
            acts -= {"window"} if one else set()  # one token a pass spends no masks
            parts.append("one token" if one else SETTINGS["threshold"].note.format(choice.threshold))
        for name in _NOTED:
            value = getattr(choice, name)
            if name in acts and value is not None and (name in _ALWAYS_NOTED or value != DEFAULTS[name]):
                parts.append(f"draft {value}" if name == "draft" else SETTINGS[name].note.format(value))
        if "layout" in acts:
            parts.append(f"drafts with {_DRAFTS_WITH[choice.layout]}")
        note = ", ".join(parts)
        if self.checkpoint is None or self.problem:
            return note
        kind, place = self.checkpoint.engine.device.type, self.checkpoint.place  # a device, or an engine's address
        return f"{note} · {kind.upper() if place.partition(':')[0] == kind else place}"


def requested(choices: Sequence[LaneChoice]) -> list[LaneRequest]:
    """The lanes before their checkpoints are loaded, with letters where titles are alike; ValueError for too many."""
    if not 1 <= len(choices) <= len(LANE_KEYS):
        raise ValueError(f"There must be 1 to {len(LANE_KEYS)} lanes, got {len(choices)}.")
    titles = [_title(choice) for choice in choices]
    return [
        LaneRequest(key=key, title=f"{title} ({key.upper()})" if titles.count(title) > 1 else title, choice=choice)
        for key, title, choice in zip(LANE_KEYS, titles, choices, strict=False)
    ]


def checkpoint_names(choices: Sequence[LaneChoice]) -> list[str]:
    return list(dict.fromkeys(name for choice in choices for name in choice.checkpoints))


def with_checkpoints(choices: Sequence[LaneChoice], models: Models) -> list[LaneRequest]:
    """The lanes with their checkpoints."""
    return [_with_checkpoint(request, models) for request in requested(choices)]


def _with_checkpoint(request: LaneRequest, models: Models) -> LaneRequest:
    choice = request.choice
    try:
        checkpoint, *draft = map(models.get, choice.checkpoints)
        if draft:
            from mars.checkpoint.checkpoint import paired  # late: torch

            checkpoint = paired(checkpoint, *draft)
    except ValueError as error:
        return replace(request, problem=error_sentence(error))
    return replace(request, checkpoint=checkpoint, problem=why_not(choice, checkpoint))


def _title(choice: LaneChoice) -> str:
    title = choice.info.lane
    if choice.family != "masks" or choice.follows:
        return title
    return f"{title}, one token" if choice.threshold is None else f"{title} τ {choice.threshold:.2f}"


def why_not(choice: LaneChoice, checkpoint: Checkpoint) -> str | None:
    """Why this checkpoint, paired with its draft where there is one, cannot write with this decoder; None if it can."""
    name, info, kinds = checkpoint.name, choice.info, checkpoint.kinds
    if info.draft and not choice.draft:
        return f"{info.title} needs a draft: choose a smaller checkpoint with the same tokenizer in the settings."
    if info.needs in kinds:
        return _refusal(choice, checkpoint)
    return f"{name} was not trained to fill masks: choose a MARS checkpoint for “{info.title}”, or another decoder."


def _refusal(choice: LaneChoice, checkpoint: Checkpoint) -> str | None:
    """The decoder's error, or None. Calling a decoder checks its arguments and makes no pass."""
    from mars.decoding import DECODERS  # late: torch
    from mars.serve import remote

    settings = to_settings(choice, threshold=None, block_size=checkpoint.block_size, max_new_tokens=1)
    try:
        if isinstance(checkpoint, remote.RemoteCheckpoint):
            remote.check(checkpoint, choice.decoder, settings)
            return None
        DECODERS[choice.decoder](checkpoint.engine, [[0]], settings)
    except ValueError as error:
        return in_words(error_sentence(error))
    return None


def why_one_token(choice: LaneChoice, checkpoint: Checkpoint) -> str | None:
    """Why the settings of a lane of the family `masks` leave it one token per pass; None if they do not."""
    if choice.family != "masks":
        return None
    settings = to_settings(choice, threshold=None, block_size=checkpoint.block_size, max_new_tokens=1)
    if settings.block_size + settings.extra_proposal < 2:
        return "The block size is 1, which leaves no mask to read: each pass writes one token."
    if choice.follows:
        return None
    if choice.threshold is None:
        return "Its threshold is set to one token per pass: choose the slider or a τ of its own in the settings."
    if choice.threshold == (0.0 if choice.score == "entropy" else 1.0):
        return f"At τ = {choice.threshold:g} almost nothing is accepted, so each pass writes one token."
    return None


def comparable(one: Checkpoint | None, other: Checkpoint | None) -> bool:
    """Whether a ratio of their speeds is one of decoders: their models have the same size, adapters aside."""
    return _size(one) == _size(other)


def _size(checkpoint: Checkpoint | None) -> tuple[object, ...]:
    """Layers and width, of the target where a draft model proposes. For a model on another machine, the machine: speeds
    of two machines are not compared.
    """
    if checkpoint is None:
        return ()
    config = getattr(getattr(checkpoint.engine, "target", checkpoint.engine), "config", None)
    return (config.num_hidden_layers, config.hidden_size) if config else (checkpoint.place,)
