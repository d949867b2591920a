"""The controls of one lane: a preset, the checkpoint, the decoder, and in a fold the settings that this decoder has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

import gradio as gr
from gradio.components import Component

from app import decoders
from app.lane_choice import OWN, PRESETS, LaneChoice, acting, choice_of, preset_of
from app.runs.checks import shown
from mars.config import DEFAULT_THRESHOLD, LayoutName, ScoreName
from mars.options import DEFAULT_ENTROPY

Mode = Literal["slider", "own", "one"]
MODES = [("Slider", "slider"), ("Own", "own"), ("One token", "one")]
USUAL_THRESHOLDS: dict[ScoreName, float] = {"probability": DEFAULT_THRESHOLD, "margin": 0.8, "entropy": DEFAULT_ENTROPY}
NO_DRAFT = ""
_NOT_SHOWN: Literal["hidden"] = "hidden"  # in the page but not seen, so that it keeps its value


class LaneControls:
    """The components of the lane `key`, laid out in the current Blocks, set to `choice`.

    `names` are the checkpoints offered, `ar` and `mars` those of the presets.
    """

    def __init__(self, key: str, choice: LaneChoice, names: Sequence[str], ar: str, mars: str) -> None:
        self.key = key
        self.name = f"lane {key.upper()}"
        self.names, self.ar, self.mars = list(names), ar, mars
        self._components: dict[str, Component] = {}
        seen = self._seen(choice.decoder, _mode(choice), choice.temperature)
        with gr.Column(elem_classes="lens-lane-controls", elem_id=f"lane-{key}", min_width=300):
            with gr.Row(elem_classes="lens-lane-who"):
                self._who(choice, names)
            self.fold = gr.Accordion("Settings", open=False, elem_classes="lens-lane-settings")
            with self.fold:
                self._judging(choice, seen)
                self._windows(choice, names, seen)
                self._sampling(choice, seen)
                self._switches(choice, seen)

    @property
    def components(self) -> list[Component]:
        """All of them, in the order that `read` and `updates` keep."""
        return list(self._components.values())

    @property
    def named(self) -> dict[str, Component]:
        """By short names: preset, checkpoint, decoder, mode (of the threshold), and fields of `LaneChoice`."""
        return dict(self._components)

    @property
    def preset(self) -> Component:
        """The list of presets."""
        return self._components["preset"]

    def read(self, *values: Any) -> LaneChoice:
        """The choice that these values of the components make.

        Raises:
            ValueError: one sentence that names the lane, the control and what is allowed.
        """
        given = dict(zip(self._components, values, strict=True))
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

    def updates(self, choice: LaneChoice) -> list[Any]:
        """What sets every component to `choice` and shows those that act."""
        mode = _mode(choice)
        values: dict[str, Any] = {field.name: getattr(choice, field.name) for field in fields(LaneChoice)}
        values |= {"preset": preset_of(choice, self.ar, self.mars), "mode": mode, "draft": choice.draft or NO_DRAFT}
        if mode != "own":
            values["threshold"] = USUAL_THRESHOLDS[choice.score]
        seen = self._seen(choice.decoder, mode, choice.temperature)
        return [gr.update(value=values[name], visible=seen[name]) for name in self._components]

    def preset_updates(self, preset: str) -> list[Any]:
        """What sets every component to a preset."""
        if not isinstance(preset, str) or preset not in PRESETS:
            return [gr.skip()] * len(self._components)
        return self.updates(PRESETS[preset](self.ar, self.mars))

    def changed(self, *values: Any) -> list[Any]:
        """After a change by hand: the preset reads `OWN`, and what acts is shown.

        A score that is no probability cannot follow the slider, so its lane gets a τ of its own.
        """
        given = dict(zip(self._components, values, strict=True))
        updates: dict[str, dict[str, Any]] = {"preset": {"value": OWN}}
        mode, score = given["mode"], given["score"]
        if mode == "slider" and score in get_args(ScoreName)[1:]:
            mode = "own"
            updates |= {"mode": {"value": mode}, "threshold": {"value": USUAL_THRESHOLDS[score]}}
        return self._update(updates, given | {"mode": mode})

    def unfolded(self, *values: Any) -> list[Any]:
        """What shows the settings that act: what is folded away hears of no change."""
        return self._update({}, dict(zip(self._components, values, strict=True)))

    def _update(self, updates: dict[str, dict[str, Any]], given: dict[str, Any]) -> list[Any]:
        """These updates by name, and those that show what acts on what is `given`."""
        seen = self._seen(str(given["decoder"]), given["mode"], given["temperature"])
        return [gr.update(**updates.get(name, {}), visible=seen[name]) for name in self._components]

    def _seen(self, decoder: str, mode: str, temperature: Any) -> dict[str, Any]:
        """Whether each component is seen."""
        drawn = isinstance(temperature, int | float) and temperature > 0
        acts = acting(decoder, 1.0 if drawn else 0.0) | {"preset", "checkpoint", "decoder"}
        if "threshold" in acts:
            acts |= {"mode"}
            acts = acts if mode == "own" else acts - {"threshold"}
            acts = acts if mode != "one" else acts - {"score"}
        names = ("preset", "mode", *(field.name for field in fields(LaneChoice)))
        return {name: True if name in acts else _NOT_SHOWN for name in names}

    def _add(self, name: str, component: type[Component], label: str, value: Any, **options: Any) -> None:
        self._components[name] = component(
            value=value, label=label, elem_id=f"lane-{self.key}-{name.replace('_', '-')}", interactive=True, **options
        )

    def _who(self, choice: LaneChoice, names: Sequence[str]) -> None:
        labels = [(decoders.words(name), name) for name in decoders.names()]
        self._choose("preset", "Preset", preset_of(choice, self.ar, self.mars), [*PRESETS, OWN])
        self._choose("checkpoint", "Checkpoint", choice.checkpoint, list(names))
        self._choose("decoder", "Decoder", choice.decoder, labels)

    def _choose(self, name: str, label: str, value: Any, choices: Sequence[Any], **options: Any) -> None:
        self._add(name, gr.Dropdown, label, value, choices=list(choices), filterable=False, min_width=90, **options)

    def _number(self, name: str, label: str, value: Any, seen: Any, **options: Any) -> None:
        self._add(name, gr.Number, label, value, visible=seen[name], min_width=110, **options)

    def _judging(self, choice: LaneChoice, seen: dict[str, Any]) -> None:
        self._add("mode", gr.Radio, "Threshold τ", _mode(choice), choices=MODES, visible=seen["mode"], min_width=200)
        own = USUAL_THRESHOLDS[choice.score] if choice.threshold is None else choice.threshold
        self._number("threshold", "Own τ", own, seen, step=0.01)
        self._choose("score", "Score", choice.score, get_args(ScoreName), visible=seen["score"])

    def _windows(self, choice: LaneChoice, names: Sequence[str], seen: dict[str, Any]) -> None:
        placeholder = "as trained"
        self._number("block_size", "Block size", choice.block_size, seen, precision=0, placeholder=placeholder)
        self._choose("layout", "Layout", choice.layout, get_args(LayoutName), visible=seen["layout"])
        self._number("cache_block_size", "Cache block", choice.cache_block_size, seen, precision=0)
        drafts = [("none", NO_DRAFT), *((name, name) for name in names)]
        self._choose("draft", "Draft", choice.draft or NO_DRAFT, drafts, visible=seen["draft"])
        self._number("draft_tokens", "Draft tokens", choice.draft_tokens, seen, precision=0)

    def _sampling(self, choice: LaneChoice, seen: dict[str, Any]) -> None:
        self._number("temperature", "Temperature", choice.temperature, seen, step=0.1)
        self._number("top_p", "Top-p", choice.top_p, seen, step=0.05)
        self._number("seed", "Sampling seed", choice.seed, seen, precision=0)

    def _switches(self, choice: LaneChoice, seen: dict[str, Any]) -> None:
        for name, label in (("extra_proposal", "Offer the last mask too"), ("continuation", "Go on with masks")):
            self._add(name, gr.Checkbox, label, getattr(choice, name), visible=seen[name], min_width=160)


def _mode(choice: LaneChoice) -> Mode:
    if choice.follows:
        return "slider"
    return "one" if choice.threshold is None else "own"
