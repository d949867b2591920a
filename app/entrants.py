"""The lanes of a run before they write: who they are, their checkpoints, and why one of them cannot take part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from app import decoders, lane_reasons, stream
from app.lane_choice import LANE_KEYS, LaneChoice, acting, to_settings
from app.models import ModelError, Models
from app.sentences import complete, without_paths
from mars.config import DecodingSettings

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

HINTS = {
    "ar": "One token per forward pass.",
    "masks": "Several tokens per forward pass, as many as are sure enough.",
    "exact": "Several tokens per forward pass, and the very text of one token per pass.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One lane; `checkpoint` is loaded, and paired with its draft. `problem` is a sentence why it cannot write.

    Before its checkpoint is there it has neither.
    """

    key: str
    title: str
    choice: LaneChoice
    checkpoint: Checkpoint | None = None
    problem: str | None = None

    def settings(self, threshold: float | None, max_new_tokens: int, alternatives: int) -> DecodingSettings:
        """What its decoder gets while the slider stands at `threshold`."""
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

    def card(self, slider: float | None) -> stream.Message:
        """How it introduces itself while the slider stands there."""
        family = self.choice.family
        return stream.lane(
            self.key,
            self.title,
            asdict(self.choice),
            family=family,
            note=self._note(),
            hint=HINTS[family],
            problem=self.problem,
            inactive=self.inactive(self.settings(slider, 1, 0).threshold),
        )

    def _note(self) -> str:
        """Decoder, whatever is unusual about its settings, and the device."""
        choice, acts = self.choice, acting(self.choice.decoder, self.choice.temperature)
        parts = [decoders.words(choice.decoder)]
        block_size = choice.block_size or (self.checkpoint.block_size if self.checkpoint else None)
        if "block_size" in acts and block_size:
            parts.append(f"block size {block_size}")
        if choice.facts.has_threshold and not choice.follows:
            parts.append("one token" if choice.threshold is None else f"τ {choice.threshold:.2f}")
        for name, default, words in (
            ("score", "probability", "by {}"),
            ("extra_proposal", False, "last mask offered"),
            ("layout", "auto", "{} layout"),
            ("cache_block_size", 32, "cache block {}"),
            ("draft_tokens", None, "{} draft tokens"),
            ("draft", None, "draft {}"),
            ("continuation", False, "going on with masks"),
            ("temperature", 0.0, "temperature {:g}"),
            ("top_p", 1.0, "top-p {:g}"),
        ):
            if name in acts and (value := getattr(choice, name)) != default:
                parts.append(words.format(value))
        device = f" · {self.checkpoint.engine.device.type.upper()}" if self.checkpoint and not self.problem else ""
        return ", ".join(parts) + device


def announced(choices: Sequence[LaneChoice]) -> list[Entrant]:
    """The lanes before their checkpoints are loaded.

    Raises:
        ValueError: there are none, or more than there is room for.
    """
    if not 1 <= len(choices) <= len(LANE_KEYS):
        raise ValueError(f"There must be 1 to {len(LANE_KEYS)} lanes, got {len(choices)}.")
    titles = _titles(choices)
    return [
        Entrant(key=key, title=title, choice=choice)
        for key, title, choice in zip(LANE_KEYS, titles, choices, strict=False)
    ]


def names(choices: Sequence[LaneChoice]) -> list[str]:
    """The checkpoints that the lanes need, each once, in order."""
    return list(dict.fromkeys(name for choice in choices for name in choice.checkpoints))


def met(choices: Sequence[LaneChoice], models: Models, stack: ExitStack) -> list[Entrant]:
    """The lanes with their checkpoints, which stay loaded until `stack` is closed."""
    return [_met(entrant, models, stack) for entrant in announced(choices)]


def _met(entrant: Entrant, models: Models, stack: ExitStack) -> Entrant:
    choice = entrant.choice
    try:
        checkpoint, *draft = [stack.enter_context(models.use(name)) for name in choice.checkpoints]
        if draft:
            from mars.loading import paired  # late: torch

            checkpoint = paired(checkpoint, *draft)
    except ModelError as error:
        return replace(entrant, problem=str(error))
    except ValueError as error:
        return replace(entrant, problem=complete(without_paths(str(error))))
    return replace(entrant, checkpoint=checkpoint, problem=lane_reasons.problem(choice, checkpoint))


def _titles(choices: Sequence[LaneChoice]) -> list[str]:
    """What each lane is called; lanes that would be called alike get their letter."""
    titles = [_title(choice) for choice in choices]
    counts = Counter(titles)
    return [
        f"{title} ({key.upper()})" if counts[title] > 1 else title
        for key, title in zip(LANE_KEYS, titles, strict=False)
    ]


def _title(choice: LaneChoice) -> str:
    title = choice.facts.title
    if choice.family != "masks" or choice.follows:
        return title
    return f"{title}, one token" if choice.threshold is None else f"{title} τ {choice.threshold:.2f}"
