"""The decoders of a benchmark: each with its settings, written as one word.

autoregressive    sliding_window@0.9/b4    sliding_window@1.5/entropy    block_cached/c16    self_speculative/linear
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mars import decoders
from mars.config import DEFAULTS, SETTINGS, DecodingSettings
from mars.decoders import DecoderInfo

GENERATE = "generate"
BASELINE = decoders.BASELINE
LAYOUTS = SETTINGS["layout"].choices
CODES = {setting.code: name for name, setting in SETTINGS.items() if setting.code}
"""The prefix of a setting in the word of a decoder: a letter before a number, a word, or "@" before a threshold."""
_WORDS = {
    "@": "@T (threshold, or none)",
    "b": "/bN (block size)",
    "c": "/cN (cache block size)",
    "k": "/kN (draft tokens)",
    "layout": f"/{'|'.join(LAYOUTS)} (layout)",
    "window": f"/{'|'.join(SETTINGS['window'].choices)} (masks of a window)",
    "score": f"/{'|'.join(SETTINGS['score'].choices)} (score)",
    "extra": "/extra (the last mask's proposal too)",
}
_FORM = re.compile(r"(?P<name>[^@/]+)(?:@(?P<threshold>[^@/]+))?(?P<rest>(?:/[^@/]+)*)")
_COUNT = re.compile(r"([a-z])([0-9]{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSpec:
    """`generate` or a decoder, with the settings in which it differs from those of the run."""

    decoder: str
    label: str
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def info(self) -> DecoderInfo | None:
        """The facts of its decoder; None for `generate`, which is none of ours."""
        return decoders.TABLE.get(self.decoder)

    @property
    def drafted(self) -> bool:
        """Whether it needs a draft model."""
        return self.info is not None and self.info.draft

    @property
    def lossless(self) -> bool:
        """Whether its output must be that of autoregressive decoding; the threshold none is one-token mode."""
        exact = self.info is not None and self.info.exact
        return exact or dict(self.changes).get("threshold", "") is None

    def settings(self, base: DecodingSettings) -> DecodingSettings:
        """The settings it runs with; ValueError where one of them is out of range."""
        return replace(base, **dict(self.changes))


def parse_decoder_specs(text: str, threshold: float | None) -> list[DecoderSpec]:
    """`generate` and the baseline, then the specs named in `text`, separated by commas, each once.

    `threshold` is for words that can have one and name none. ValueError lists the valid words.
    """
    words = [word.strip() for word in text.split(",")]
    return list(dict.fromkeys(_parse(word, threshold) for word in [GENERATE, BASELINE, *words]))


def default_decoder_specs(threshold: float | None, *, masks: bool, draft: bool = False) -> list[DecoderSpec]:
    """`generate`, the baseline, and every decoder that runs with or without trained masks and a draft model."""
    words = []
    for name, info in decoders.TABLE.items():
        if (draft or not info.draft) and info.needs in decoders.kinds(masks=masks):
            words += [f"{name}/{layout}" for layout in LAYOUTS] if "layout" in info.settings else [name]
    return parse_decoder_specs(",".join(words), threshold)


def check_runnable(
    specs: Sequence[DecoderSpec], name: str, kinds: Collection[decoders.Needs], *, draft: bool = False
) -> None:
    """Raise ValueError if a spec cannot run on checkpoint `name`, which meets the needs `kinds`, with a `draft`."""
    for spec in specs:
        needs = spec.info.needs if spec.info else "causal"
        if needs not in kinds:
            others = decoders.names(info for info in decoders.TABLE.values() if info.needs in kinds)
            raise ValueError(f"{spec.label} needs a checkpoint of another kind than {name}, which runs {others}")
        if spec.drafted and not draft:
            raise ValueError(f"{spec.label} needs --draft DIR: a smaller checkpoint with the same vocabulary")


def parse_threshold(text: str) -> float | None:
    """A number, or None for "none"; ValueError where it is neither."""
    try:
        return None if text == "none" else float(text)
    except ValueError:
        raise ValueError(f"a threshold must be a number or none, got {text!r}") from None


def _parse(word: str, threshold: float | None) -> DecoderSpec:
    form = _FORM.fullmatch(word)
    if form is None or form["name"] not in (GENERATE, *decoders.TABLE):
        raise ValueError(_allowed(word))
    name = form["name"]
    takes = _takes(name)
    changes: dict[str, Any] = {}
    label = name
    if "@" in takes:
        changes["threshold"] = threshold if form["threshold"] is None else parse_threshold(form["threshold"])
        label += f"@{'none' if changes['threshold'] is None else changes['threshold']}"
    elif form["threshold"] is not None:
        raise ValueError(_allowed(word))
    for part in form["rest"].split("/")[1:]:
        field, value = _change(part, takes, word)
        if field in changes:
            raise ValueError(_allowed(word))
        changes[field] = value
        label += f"/{part}"
    return DecoderSpec(decoder=name, label=label, changes=tuple(sorted(changes.items())))


def _takes(name: str) -> list[str]:
    """The codes of the settings that a spec of this decoder can have; `generate` has none."""
    info = decoders.TABLE.get(name)
    codes = [SETTINGS[setting].code for setting in info.settings] if info else []
    return [code for code in codes if code and not (info and code == "@" and not info.by_threshold)]


def _change(part: str, takes: Sequence[str], word: str) -> tuple[str, Any]:
    count = _COUNT.fullmatch(part)
    if count and count[1] in takes:
        return CODES[count[1]], int(count[2])
    for code in takes:
        name = CODES[code]
        if part in SETTINGS[name].choices:
            return name, part
        if part == code and isinstance(DEFAULTS[name], bool):
            return name, True
    raise ValueError(_allowed(word))


def _allowed(word: str) -> str:
    choices = [" ".join([name, *(_WORDS[code] for code in _takes(name))]) for name in (GENERATE, *decoders.TABLE)]
    return f"decoders must be some of: {'; '.join(choices)}; each setting at most once, got {word!r}"
