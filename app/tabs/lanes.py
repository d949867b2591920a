"""The controls of the lanes: how many there are, and the settings of each."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Literal

import gradio as gr
from gradio.components import Component

from app.compare.lane_choice import LANE_KEYS, OWN, PRESETS, SLIDING, LaneChoice, acting, preset_of
from app.models.pairs import Pair
from app.tabs.parts import HIDDEN, LATEST
from mars import decoders
from mars.config import DEFAULT_THRESHOLD, SCORES, SETTINGS, ScoreName
from mars.options import DEFAULT_ENTROPY
from mars.schema import checked, shown

Mode = Literal["slider", "own", "one"]
MODES = [("Slider", "slider"), ("Own", "own"), ("One token", "one")]
USUAL_THRESHOLDS: dict[ScoreName, float] = {
    **dict.fromkeys(SLIDING, DEFAULT_THRESHOLD),
    "margin": 0.8,
    "entropy": DEFAULT_ENTROPY,
}
NO_DRAFT = ""
_IN_ORDER = """threshold score window block_size layout cache_block_size draft draft_tokens
    temperature top_p seed extra_proposal""".split()
"""The order of the settings on the page."""
FEWEST = 2


class LaneControls:
    """The components of the lane `key`, laid out in the current Blocks, set to `choice`.

    `names` are the checkpoints offered, `pair` has those of the presets at the start. The components are `named`
    preset, checkpoint, decoder, mode (of the threshold), and by fields of `LaneChoice`.
    """

    def __init__(self, key: str, choice: LaneChoice, names: Sequence[str], pair: Pair) -> None:
        self.key = key
        self.name = f"lane {key.upper()}"
        self.named: dict[str, Component] = {}
        values = held(choice, pair)
        self._first, self._seen = values, _seen(values)
        with gr.Column(elem_classes="lens-lane-controls", elem_id=f"lane-{key}", min_width=300):
            with gr.Row(elem_classes="lens-lane-who"):
                self._choose("preset", "Preset", [*PRESETS, OWN])
                self._choose("checkpoint", "Checkpoint", names)
                self._choose("decoder", "Decoder", [(info.title, info.name) for info in decoders.TABLE.values()])
            self.fold = gr.Accordion("Settings", open=False, elem_classes="lens-lane-settings")
            with self.fold:
                self._add("mode", gr.Radio, "Threshold τ", choices=MODES, min_width=200)
                for name in _IN_ORDER:
                    if name == "draft":
                        self._choose("draft", "Draft", [("none", NO_DRAFT), *((each, each) for each in names)])
                    else:
                        self._setting(name)

    @property
    def components(self) -> list[Component]:
        """All of them, in the order that `read` and `updates` keep."""
        return list(self.named.values())

    def read(self, *values: Any) -> LaneChoice:
        """The choice that these values of the components make; ValueError names the control and what is allowed."""
        given = dict(zip(self.named, values, strict=True))
        mode = given.pop("mode")
        given["draft"] = given["draft"] or None
        acts = acting(str(given["decoder"]), 1.0 if given["temperature"] else 0.0)
        wanted = {name: given[name] for name in ("checkpoint", "decoder", *(acts & given.keys()))}
        if "follows" in acts:
            wanted["follows"] = mode == "slider" and given["score"] in SLIDING
            wanted["threshold"] = given["threshold"] if mode == "own" else None
            if mode == "own" and given["threshold"] is None:
                raise ValueError(f"{self.name}: give its own τ a value, or choose the slider")
        choice: LaneChoice = checked(LaneChoice, wanted, self.name)
        return choice.relevant()

    def preset_updates(self, preset: object, pair: Pair) -> list[Any]:
        """Updates that set every component as this preset of `pair`, if it is one."""
        values = preset_values(preset, pair)
        return self.updates(values, values) if values else [gr.skip()] * len(self.named)

    def changed(self, pair: Pair, *values: Any) -> list[Any]:
        """Updates after a change by hand: the preset of `pair` or `OWN`, and components without effect are hidden.

        A score that is no chance cannot follow the slider, so its lane gets a τ of its own.
        """
        given = dict(zip(self.named, values, strict=True))
        preset = preset_values(given["preset"], pair)  # which still holds if a list was left and nothing chosen
        new: dict[str, Any] = {} if preset.items() <= given.items() else {"preset": OWN}
        if given["mode"] == "slider" and (score := given["score"]) in SCORES and score not in SLIDING:
            new |= {"mode": "own", "threshold": USUAL_THRESHOLDS[score]}
        return self.updates(new, given | new)

    def unfolded(self, *values: Any) -> list[Any]:
        """Updates that show the settings with an effect: a folded component misses changes."""
        return self.updates({}, dict(zip(self.named, values, strict=True)))

    def updates(self, new: dict[str, Any], given: dict[str, Any]) -> list[Any]:
        """Updates that set `new` values by name, and show the components with an effect under the values `given`."""
        seen = _seen(given)
        values = {name: {"value": value} for name, value in new.items()}
        return [gr.update(**values.get(name, {}), visible=seen(name)) for name in self.named]

    def _add(self, name: str, component: type[Component], label: str, **options: Any) -> None:
        elem_id = f"lane-{self.key}-{name.replace('_', '-')}"
        known = {"label": label, "elem_id": elem_id, "interactive": True, "visible": self._seen(name)}
        self.named[name] = component(value=self._first[name], **known, **options)

    def _choose(self, name: str, label: str, choices: Sequence[Any]) -> None:
        self._add(name, gr.Dropdown, label, choices=list(choices), filterable=False, min_width=90)

    def _setting(self, name: str) -> None:
        """The control that the field's `Setting` asks for."""
        setting = SETTINGS[name]
        if setting.control == "choice":
            self._choose(name, setting.title, setting.choices)
        elif setting.control == "switch":
            self._add(name, gr.Checkbox, setting.title, min_width=160)
        else:
            options: dict[str, Any] = {"placeholder": "as trained"} if name == "block_size" else {}
            self._add(name, gr.Number, setting.title, step=setting.step, min_width=110, **options)


def held(choice: LaneChoice, pair: Pair) -> dict[str, Any]:
    """What the components hold for this choice, by name; the presets are those of `pair`."""
    mode: Mode = "slider" if choice.follows else "one" if choice.threshold is None else "own"
    values = {field.name: getattr(choice, field.name) for field in fields(LaneChoice) if field.name != "follows"}
    values |= {"preset": preset_of(choice, pair.ar, pair.mars), "mode": mode, "draft": choice.draft or NO_DRAFT}
    return values if mode == "own" else values | {"threshold": USUAL_THRESHOLDS[choice.score]}


def preset_values(preset: object, pair: Pair) -> dict[str, Any]:
    """The same for a preset; nothing if it is none."""
    return held(PRESETS[preset](pair.ar, pair.mars), pair) if isinstance(preset, str) and preset in PRESETS else {}


def _seen(given: dict[str, Any]) -> Callable[[str], Any]:
    """What `visible` is of a component by name, where a lane's components hold these values."""
    mode, temperature = given["mode"], given["temperature"]
    drawn = isinstance(temperature, int | float) and temperature > 0
    acts = acting(str(given["decoder"]), 1.0 if drawn else 0.0) | {"preset", "checkpoint", "decoder"}
    if "threshold" in acts:
        acts |= {"mode"}
        acts = acts if mode == "own" else acts - {"threshold"}
        acts = acts if mode != "one" else acts - {"score"}
    return lambda name: True if name in acts else HIDDEN


def build_count() -> gr.Radio:
    choices = list(range(FEWEST, len(LANE_KEYS) + 1))
    return gr.Radio(choices, value=choices[-1], label="Lanes", elem_id="lanes", min_width=10)


class LaneRow:
    """The controls of the lanes, of which `count` take part, for checkpoints of these `names` and presets of `pair`."""

    def __init__(self, count: gr.Radio, names: list[str], pair: Pair) -> None:
        self.count = count
        with gr.Row(elem_classes="lens-lane-row"):
            self.lanes = [
                LaneControls(key, make(pair.ar, pair.mars), names, pair)
                for key, make in zip(LANE_KEYS, PRESETS.values(), strict=True)
            ]

    @property
    def inputs(self) -> list[Component]:
        return [self.count, *(component for lane in self.lanes for component in lane.components)]

    def read(self, *values: Any) -> list[LaneChoice]:
        """The lanes that take part; ValueError names the lane, the control and what is allowed."""
        count, *rest = values
        if count not in range(FEWEST, len(LANE_KEYS) + 1):
            raise ValueError(f"The number of lanes must be from {FEWEST} to {len(LANE_KEYS)}, got {shown(count)}.")
        each = len(self.lanes[0].components)
        parts = [rest[start : start + each] for start in range(0, len(rest), each)]
        return [lane.read(*part) for lane, part in zip(self.lanes[: int(count)], parts, strict=False)]

    def connect(self, models: Component, pair_of: Callable[[object], Pair]) -> list[Any]:
        """Connect the controls with each other and `models`; returns the events after which lanes have changed."""
        changed = list[Any]()
        for lane in self.lanes:
            preset = lane.named["preset"]
            to_preset = partial(lambda lane, name, key: lane.preset_updates(name, pair_of(key)), lane)
            chosen = preset.input(to_preset, [preset, models], lane.components, show_progress_on=preset, **LATEST)
            parts = lane.components
            others = [part.input for part in parts if part is not preset]
            to_own = partial(lambda lane, key, *values: lane.changed(pair_of(key), *values), lane)
            by_hand = gr.on(others, to_own, [models, *parts], parts, show_progress_on=preset, **LATEST)
            lane.fold.expand(lane.unfolded, lane.components, lane.components, show_progress_on=preset, **LATEST)
            changed += [chosen, by_hand]
        return changed
