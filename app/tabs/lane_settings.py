"""The controls of one lane: a preset, the checkpoint, the decoder, and in a fold the settings of this decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

import gradio as gr
from gradio.components import Component

from app.compare.lane_choice import OWN, PRESETS, LaneChoice, acting, choice_of, preset_of
from app.models.pairs import Pair
from app.tabs.parts import HIDDEN
from mars import decoders
from mars.config import DEFAULT_THRESHOLD, DEFAULTS, SETTINGS, ScoreName
from mars.options import DEFAULT_ENTROPY
from mars.schema import shown

Mode = Literal["slider", "own", "one"]
MODES = [("Slider", "slider"), ("Own", "own"), ("One token", "one")]
USUAL_THRESHOLDS: dict[ScoreName, float] = {"probability": DEFAULT_THRESHOLD, "margin": 0.8, "entropy": DEFAULT_ENTROPY}
NO_DRAFT = ""
_IN_ORDER = (
    *("score", "block_size", "layout", "cache_block_size", "draft", "draft_tokens"),
    *("temperature", "top_p", "seed", "extra_proposal", "continuation"),
)
"""The order of the settings on the page, behind the threshold."""


class LaneControls:
    """The components of the lane `key`, laid out in the current Blocks, set to `choice`.

    `names` are the checkpoints offered, `ar` and `mars` those of the presets at the start. The components are `named`
    preset, checkpoint, decoder, mode (of the threshold), and by fields of `LaneChoice`.
    """

    def __init__(self, key: str, choice: LaneChoice, names: Sequence[str], ar: str, mars: str) -> None:
        self.key = key
        self.name = f"lane {key.upper()}"
        self.names, self.ar, self.mars = list(names), ar, mars
        self.named: dict[str, Component] = {}
        seen = self._seen(choice.decoder, _mode(choice), choice.temperature)
        with gr.Column(elem_classes="lens-lane-controls", elem_id=f"lane-{key}", min_width=300):
            with gr.Row(elem_classes="lens-lane-who"):
                self._who(choice, names)
            self.fold = gr.Accordion("Settings", open=False, elem_classes="lens-lane-settings")
            with self.fold:
                self._judging(choice, seen)
                for name in _IN_ORDER:
                    if name == "draft":
                        self._drafting(choice, names, seen)
                    else:
                        self._setting(name, choice, seen)

    @property
    def components(self) -> list[Component]:
        """All of them, in the order that `read` and `updates` keep."""
        return list(self.named.values())

    @property
    def preset(self) -> Component:
        """The list of presets."""
        return self.named["preset"]

    def read(self, *values: Any) -> LaneChoice:
        """Make a choice of these values of the components.

        Raises:
            ValueError: one sentence that names the lane, the control and what is allowed.
        """
        given = dict(zip(self.named, values, strict=True))
        mode = given.pop("mode")
        if mode not in get_args(Mode):
            raise ValueError(f"{self.name}: the threshold must be slider, own or one, got {shown(mode)}")
        given["draft"] = given["draft"] or None
        acts = acting(str(given["decoder"]), 1.0 if given["temperature"] else 0.0)
        wanted = {name: given[name] for name in ("checkpoint", "decoder", *(acts & given.keys()))}
        if "follows" in acts:
            wanted["follows"] = mode == "slider" and given["score"] == "probability"
            wanted["threshold"] = self._own(given) if mode == "own" else None
        return choice_of(wanted, self.name).relevant()

    def _own(self, given: dict[str, Any]) -> Any:
        if given["threshold"] is None:
            raise ValueError(f"{self.name}: give its own τ a value, or choose the slider")
        return given["threshold"]

    def updates(self, choice: LaneChoice, pair: Pair | None = None) -> list[Any]:
        """Updates that set every component to `choice` and hide those without effect; the presets are of `pair`."""
        ar, mars = (pair.ar, pair.mars) if pair else (self.ar, self.mars)
        mode = _mode(choice)
        values: dict[str, Any] = {field.name: getattr(choice, field.name) for field in fields(LaneChoice)}
        values |= {"preset": preset_of(choice, ar, mars), "mode": mode, "draft": choice.draft or NO_DRAFT}
        if mode != "own":
            values["threshold"] = USUAL_THRESHOLDS[choice.score]
        seen = self._seen(choice.decoder, mode, choice.temperature)
        return [gr.update(value=values[name], visible=seen[name]) for name in self.named]

    def preset_updates(self, preset: str, pair: Pair | None = None) -> list[Any]:
        """Updates that set every component to a preset, of `pair` where there are several."""
        if not isinstance(preset, str) or preset not in PRESETS:
            return [gr.skip()] * len(self.named)
        ar, mars = (pair.ar, pair.mars) if pair else (self.ar, self.mars)
        return self.updates(PRESETS[preset](ar, mars), pair)

    def changed(self, *values: Any) -> list[Any]:
        """Updates after a change by hand: the preset reads `OWN`, and components without effect are hidden.

        A score that is no probability cannot follow the slider, so its lane gets a τ of its own.
        """
        given = dict(zip(self.named, values, strict=True))
        updates: dict[str, dict[str, Any]] = {"preset": {"value": OWN}}
        mode, score = given["mode"], given["score"]
        if mode == "slider" and score in get_args(ScoreName)[1:]:
            mode = "own"
            updates |= {"mode": {"value": mode}, "threshold": {"value": USUAL_THRESHOLDS[score]}}
        return self._update(updates, given | {"mode": mode})

    def unfolded(self, *values: Any) -> list[Any]:
        """Updates that show the settings with an effect: a folded component misses changes."""
        return self._update({}, dict(zip(self.named, values, strict=True)))

    def _update(self, updates: dict[str, dict[str, Any]], given: dict[str, Any]) -> list[Any]:
        """These updates by name, and those that show the components with an effect under the values `given`."""
        seen = self._seen(str(given["decoder"]), given["mode"], given["temperature"])
        return [gr.update(**updates.get(name, {}), visible=seen[name]) for name in self.named]

    def _seen(self, decoder: str, mode: str, temperature: Any) -> dict[str, Any]:
        """The visibility of each component."""
        drawn = isinstance(temperature, int | float) and temperature > 0
        acts = acting(decoder, 1.0 if drawn else 0.0) | {"preset", "checkpoint", "decoder"}
        if "threshold" in acts:
            acts |= {"mode"}
            acts = acts if mode == "own" else acts - {"threshold"}
            acts = acts if mode != "one" else acts - {"score"}
        names = ("preset", "mode", *(field.name for field in fields(LaneChoice)))
        return {name: True if name in acts else HIDDEN for name in names}

    def _add(self, name: str, component: type[Component], label: str, value: Any, **options: Any) -> None:
        self.named[name] = component(
            value=value, label=label, elem_id=f"lane-{self.key}-{name.replace('_', '-')}", interactive=True, **options
        )

    def _who(self, choice: LaneChoice, names: Sequence[str]) -> None:
        labels = [(decoder.title, decoder.name) for decoder in decoders.TABLE.values()]
        self._choose("preset", "Preset", preset_of(choice, self.ar, self.mars), [*PRESETS, OWN])
        self._choose("checkpoint", "Checkpoint", choice.checkpoint, list(names))
        self._choose("decoder", "Decoder", choice.decoder, labels)

    def _choose(self, name: str, label: str, value: Any, choices: Sequence[Any], **options: Any) -> None:
        self._add(name, gr.Dropdown, label, value, choices=list(choices), filterable=False, min_width=90, **options)

    def _judging(self, choice: LaneChoice, seen: dict[str, Any]) -> None:
        self._add("mode", gr.Radio, "Threshold τ", _mode(choice), choices=MODES, visible=seen["mode"], min_width=200)
        own = USUAL_THRESHOLDS[choice.score] if choice.threshold is None else choice.threshold
        self._setting("threshold", choice, seen, value=own)

    def _drafting(self, choice: LaneChoice, names: Sequence[str], seen: dict[str, Any]) -> None:
        drafts = [("none", NO_DRAFT), *((name, name) for name in names)]
        self._choose("draft", "Draft", choice.draft or NO_DRAFT, drafts, visible=seen["draft"])

    def _setting(self, name: str, choice: LaneChoice, seen: dict[str, Any], **given: Any) -> None:
        """The control that the field's `Setting` asks for."""
        setting, visible = SETTINGS[name], seen[name]
        value = given.get("value", getattr(choice, name))
        if setting.control == "choice":
            self._choose(name, setting.title, value, setting.choices, visible=visible)
        elif setting.control == "switch":
            self._add(name, gr.Checkbox, setting.title, value, visible=visible, min_width=160)
        else:
            options: dict[str, Any] = {"placeholder": "as trained"} if name == "block_size" else {}
            options |= {"precision": 0} if isinstance(DEFAULTS[name], int) else {"step": setting.step}
            self._add(name, gr.Number, setting.title, value, visible=visible, min_width=110, **options)


def _mode(choice: LaneChoice) -> Mode:
    if choice.follows:
        return "slider"
    return "one" if choice.threshold is None else "own"
