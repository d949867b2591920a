"""The lanes of a run before they write: settings, checkpoints, and the reason why one of them cannot take part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from app.compare import lane_reasons, stream
from app.compare.lane_choice import LANE_KEYS, LaneChoice, acting, to_settings
from app.models.manager import ModelError, Models
from app.models.sentences import error_sentence
from app.runs.run import Turn
from mars import decoders
from mars.config import DEFAULTS, SETTINGS, DecodingSettings

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

_NOTED = (
    *("score", "extra_proposal", "layout", "cache_block_size", "draft_tokens", "draft", "continuation"),
    *("temperature", "top_p"),
)
_ALWAYS_NOTED = {"draft_tokens", "draft"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest:
    """One lane; `checkpoint` is loaded, and paired with its draft. `problem` is a sentence why it cannot write.

    Until its checkpoint is loaded, both are None.
    """

    key: str
    title: str
    choice: LaneChoice
    checkpoint: Checkpoint | None = None
    problem: str | None = None

    def settings(self, threshold: float | None, max_new_tokens: int, alternatives: int) -> DecodingSettings:
        """The settings of its decoder while the slider stands at `threshold`."""
        return to_settings(
            self.choice,
            threshold=threshold,
            block_size=self.checkpoint.block_size if self.checkpoint else None,
            max_new_tokens=max_new_tokens,
            alternatives=alternatives,
        )

    def inactive(self, threshold: float | None) -> str | None:
        """Why it writes one token per pass at the threshold in force, although it could write more."""
        if self.checkpoint is None or self.problem:
            return None
        return lane_reasons.inactive(self.choice, self.checkpoint, threshold)

    def card(self, slider: float | None, earlier: Sequence[Turn] = ()) -> stream.Card:
        """Its card at this value of the slider; `earlier` has the turns before its run."""
        family = self.choice.family
        return stream.lane(
            self.key,
            self.title,
            asdict(self.choice),
            family=family,
            note=self._note(),
            hint=decoders.FAMILIES[family].hint,
            problem=self.problem,
            inactive=self.inactive(self.settings(slider, 1, 0).threshold),
            earlier=earlier,
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
            parts.append("one token" if one else SETTINGS["threshold"].note.format(choice.threshold))
        for name in _NOTED:
            value = getattr(choice, name)
            if name in acts and value is not None and (name in _ALWAYS_NOTED or value != DEFAULTS[name]):
                parts.append(f"draft {value}" if name == "draft" else SETTINGS[name].note.format(value))
        device = f" · {_place(self.checkpoint)}" if self.checkpoint and not self.problem else ""
        return ", ".join(parts) + device


def _place(checkpoint: Checkpoint) -> str:
    """The kind of device, or the address of the engine."""
    kind = checkpoint.engine.device.type
    return kind.upper() if checkpoint.place.partition(":")[0] == kind else checkpoint.place


def requested(choices: Sequence[LaneChoice]) -> list[LaneRequest]:
    """The lanes before their checkpoints are loaded.

    Raises:
        ValueError: there are none, or more than there is room for.
    """
    if not 1 <= len(choices) <= len(LANE_KEYS):
        raise ValueError(f"There must be 1 to {len(LANE_KEYS)} lanes, got {len(choices)}.")
    titles = _titles(choices)
    return [
        LaneRequest(key=key, title=title, choice=choice)
        for key, title, choice in zip(LANE_KEYS, titles, choices, strict=False)
    ]


def checkpoint_names(choices: Sequence[LaneChoice]) -> list[str]:
    """The checkpoints that the lanes need, each once, in order."""
    return list(dict.fromkeys(name for choice in choices for name in choice.checkpoints))


def with_checkpoints(choices: Sequence[LaneChoice], models: Models, stack: ExitStack) -> list[LaneRequest]:
    """The lanes with their checkpoints, which stay loaded until `stack` is closed."""
    return [_with_checkpoint(request, models, stack) for request in requested(choices)]


def _with_checkpoint(request: LaneRequest, models: Models, stack: ExitStack) -> LaneRequest:
    choice = request.choice
    try:
        checkpoint, *draft = [stack.enter_context(models.use(name)) for name in choice.checkpoints]
        if draft:
            from mars.checkpoint.loading import paired  # late: torch

            checkpoint = paired(checkpoint, *draft)
    except ModelError as error:
        return replace(request, problem=str(error))
    except ValueError as error:
        return replace(request, problem=error_sentence(error))
    return replace(request, checkpoint=checkpoint, problem=lane_reasons.problem(choice, checkpoint))


def _titles(choices: Sequence[LaneChoice]) -> list[str]:
    """The title of each lane; lanes with the same title get their letter."""
    titles = [_title(choice) for choice in choices]
    counts = Counter(titles)
    return [
        f"{title} ({key.upper()})" if counts[title] > 1 else title
        for key, title in zip(LANE_KEYS, titles, strict=False)
    ]


def _title(choice: LaneChoice) -> str:
    title = choice.info.lane
    if choice.family != "masks" or choice.follows:
        return title
    return f"{title}, one token" if choice.threshold is None else f"{title} τ {choice.threshold:.2f}"
