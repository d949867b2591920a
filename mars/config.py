"""Decoding settings: frozen, checked at the door, keyword-only, so that a typo is an error."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from pydantic import model_validator

from mars.schema import Strict

ScoreName = Literal["probability", "margin", "entropy", "calibrated"]
LayoutName = Literal["auto", "linear", "quadratic", "tree", "lookup"]
WindowName = Literal["fixed", "auto"]

SCORES: tuple[ScoreName, ...] = get_args(ScoreName)
LAYOUTS: tuple[str, ...] = get_args(LayoutName)
WINDOWS: tuple[str, ...] = get_args(WindowName)

DEFAULT_THRESHOLD = 0.95
DEFAULT_BLOCK_SIZE = 8
DEFAULT_NEW_TOKENS = 192
DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float32", "bfloat16")
MAX_BLOCK_SIZE = 64
MAX_ALTERNATIVES = 20
MAX_CACHE_BLOCK_SIZE = 1024
MAX_DRAFT_TOKENS = 64
MAX_SEED = 2**63 - 1
LEAST_CHANCE = 1e-7
"""Probabilities nearer to 0 or 1 are calibrated as this one: float32 tells no more of them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The description of one field of `DecodingSettings`: its name for people, its values, its form of input.

    `about` is its help on a command line, "" where there is no option for it; `option` is its name there, without the
    dashes in front, if that is not the field's. `control` is what asks for it on the page. `note` is how a lane says it
    when it is not the default, `figure` how the name of a series does, "{}" standing for the value. `code` is its
    letter, or word, in the name of a decoder in a benchmark.
    """

    title: str
    about: str = ""
    option: str = ""
    metavar: str | None = None
    control: Literal["threshold", "number", "choice", "switch", "none"] = "none"
    choices: tuple[str, ...] = ()
    lowest: float | None = None
    above: float | None = None
    highest: float | None = None
    step: float = 1
    note: str = ""
    figure: str = ""
    code: str = ""

    @property
    def allowed(self) -> str:
        """The range in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.above is not None:
            return f"above {self.above:g} and at most {self.highest:g}"
        if self.highest is None:
            return f">= {self.lowest}"
        if self.highest == math.inf:
            return f"a finite number >= {self.lowest}"
        return f"between {self.lowest} and {self.highest}"

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError unless `value` is one that the field `name` takes; a threshold depends on its score."""
        if self.choices:
            fits = value in self.choices
        else:
            fits = (self.lowest is None or value >= self.lowest) and (self.above is None or value > self.above)
            fits = fits and (self.highest is None or value <= self.highest) and value != math.inf
        if not fits:
            got = repr(value) if self.choices else value
            raise ValueError(f"{name} must be {self.allowed}, got {got}")


def _field(default: Any, **described: Any) -> Any:
    """A field of the settings with this default, which a `Setting` describes."""
    return field(default=default, metadata={"setting": Setting(**described)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings(Strict):
    """The settings of proposing and accepting tokens, whatever the checkpoint and the length of the text.

    `threshold` is the one at the start (None: one-token mode); a `Control` can change it while text is written.
    `extra_proposal` also offers the prediction of the last mask, the B+1-th of the window.

    `temperature` 0 takes the most probable token; above 0 tokens are drawn, from the smallest set whose mass reaches
    `top_p`, with noise that depends only on `seed`, the position and the token (`mars.sampling`). `layout` is where the
    exact decoder puts its masks: after the last draft (linear), after every prefix of the drafts (quadratic), after the
    likely ones (tree; lookup also has copies of the text as drafts), or what the load suggests
    (auto). `window` is how many masks a sliding window has: as many as the block (fixed), or none to that many, as the
    text and the times of passes suggest (auto); the text depends on it, as it does on the threshold.
    `cache_block_size` is how many tokens are written before a decoder that delays it commits them to the cache.
    `draft_tokens` is how many drafts or guesses a pass verifies at most.
    """

    threshold: float | None = _field(
        DEFAULT_THRESHOLD,
        title="Own τ",
        about="proposals after the first are accepted while their score meets it; none is one-token mode",
        metavar="T",
        control="threshold",
        step=0.01,
        note="τ {:.2f}",
        figure="τ {:g}",
        code="@",
    )
    score: ScoreName = _field(  # noqa: RUF009 - a field, as that of dataclasses
        "probability",
        title="Score",
        about="probability (default), margin, entropy, or calibrated: the chance that one-token mode writes it",
        metavar="NAME",
        control="choice",
        choices=SCORES,
        note="by {}",
        figure="{}",
        code="score",
    )
    extra_proposal: bool = _field(
        False,
        title="Offer the last mask too",
        about="also offer the prediction of the last mask, the B+1-th",
        control="switch",
        note="last mask offered",
        figure="B+1 proposals",
        code="extra",
    )
    temperature: float = _field(
        0.0,
        title="Temperature",
        about="above 0 tokens are drawn; 0 takes the most probable one",
        metavar="X",
        control="number",
        lowest=0,
        highest=math.inf,
        step=0.1,
        note="temperature {:g}",
        figure="temperature {}",
    )
    top_p: float = _field(
        1.0,
        title="Top-p",
        about="draw from the smallest set of tokens whose mass reaches P; 1 draws from all",
        metavar="P",
        control="number",
        above=0,
        highest=1,
        step=0.05,
        note="top-p {:g}",
        figure="top_p {}",
    )
    seed: int = _field(
        0,
        title="Sampling seed",
        about="the same seed draws the same text, whatever the batch",
        option="sampling-seed",
        metavar="S",
        control="number",
        lowest=0,
        highest=MAX_SEED,
        figure="seed {}",
    )
    layout: LayoutName = _field(  # noqa: RUF009 - a field, as that of dataclasses
        "lookup",
        title="Layout",
        about="where the masks stand: after the last draft (linear), after every prefix of the drafts (quadratic), "
        "after the likely ones (tree; lookup, the default, also drafts what followed the same words before), or "
        "whatever is fastest at the moment, one-token passes included (auto)",
        control="choice",
        choices=LAYOUTS,
        note="{} layout",
        figure="{}",
        code="layout",
    )
    window: WindowName = _field(  # noqa: RUF009 - a field, as that of dataclasses
        "fixed",
        title="Masks",
        about="how many masks a pass has: those of the block (fixed, the default), or none to all of them, by how many "
        "were accepted and what passes take (auto: with a threshold the text then depends on it)",
        control="choice",
        choices=WINDOWS,
        note="as many masks as pay, so runs may differ",
        figure="masks {}",
        code="window",
    )
    cache_block_size: int = _field(
        32,
        title="Cache block",
        about="tokens that are written before they enter the cache",
        metavar="N",
        control="number",
        lowest=1,
        highest=MAX_CACHE_BLOCK_SIZE,
        note="cache block {}",
        figure="cache block {}",
        code="c",
    )
    draft_tokens: int = _field(
        4,
        title="Draft tokens",
        about="drafts or guesses that a pass verifies",
        metavar="K",
        control="number",
        lowest=1,
        highest=MAX_DRAFT_TOKENS,
        note="{} draft tokens",
        figure="K {}",
        code="k",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_continuation(cls, given: Any) -> Any:
        """Leave out a setting of earlier versions, which runs, links and calls of then still name."""
        if not isinstance(given, dict) or "continuation" in cls.__dataclass_fields__:
            return given
        return {name: value for name, value in given.items() if name != "continuation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings(MethodSettings):
    """All settings of a decoder: `MethodSettings`, and those of the checkpoint, the text and the record.

    `block_size` is how many tokens a pass proposes. `alternatives` is how many top-k candidates each proposal records.
    `use_cache` is false in runs of earlier versions alone, whose passes could read the whole text again.
    """

    block_size: int = _field(
        DEFAULT_BLOCK_SIZE,
        title="Block size",
        about="tokens proposed per pass, the first included",
        metavar="B",
        control="number",
        lowest=1,
        highest=MAX_BLOCK_SIZE,
        note="block size {}",
        figure="B {}",
        code="b",
    )
    max_new_tokens: int = _field(
        DEFAULT_NEW_TOKENS,
        title="Length limit",
        about="most tokens written",
        metavar="N",
        control="number",
        lowest=1,
        figure="max_new_tokens {}",
    )
    alternatives: int = _field(0, title="Alternatives", lowest=0, highest=MAX_ALTERNATIVES, figure="alternatives {}")
    use_cache: bool = _field(True, title="Cache", figure="no cache")

    @property
    def masks(self) -> int:
        """The masks of a window: one for each token of the block but the first, which reads real tokens alone."""
        return self.block_size - (not self.extra_proposal)

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            if isinstance(DEFAULTS[name], bool) or name == "threshold":
                continue
            setting.check(name, getattr(self, name))
        check_threshold(self.threshold, self.score)


SETTINGS: dict[str, Setting] = {found.name: found.metadata["setting"] for found in fields(DecodingSettings)}
"""Of each field of `DecodingSettings`, by name."""
DEFAULTS: dict[str, Any] = {found.name: found.default for found in fields(DecodingSettings)}
METHOD_FIELDS = tuple(found.name for found in fields(MethodSettings))


def check_threshold(threshold: float | None, score: ScoreName = "probability") -> None:
    """Raise ValueError unless `threshold` is None (one-token mode) or in the range of `score`."""
    if threshold is None:
        return
    upper = math.inf if score == "entropy" else 1.0
    if not (hasattr(threshold, "__float__") and math.isfinite(threshold) and 0.0 <= threshold <= upper):
        allowed = ">= 0 (nats)" if score == "entropy" else "between 0 and 1"
        raise ValueError(f"threshold must be {allowed} for {score}, or none for one-token mode, got {threshold!r}")


def meets_threshold(value: Any, threshold: Any, score: ScoreName) -> Any:
    """Whether scores meet thresholds, numbers or tensors; for entropy lower is surer."""
    return value <= threshold if score == "entropy" else value >= threshold
