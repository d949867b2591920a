"""The controls of all lanes, side by side above their text, and the number of lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gradio as gr
from gradio.components import Component

from app.compare.lane_choice import LANE_KEYS, OWN, PRESETS, LaneChoice
from app.tabs.lane_settings import LaneControls
from app.tabs.models import ModelsControl
from app.tabs.parts import LATEST, QUIET
from mars.config import DEFAULT_THRESHOLD
from mars.schema import shown

FEWEST = 2
WIDE = 1200  # pixels from which three lanes stand side by side
PHONE = 600  # pixels up to which one lane is in view at a time, with a button for each (compare/lanes.css)
AT_DEFAULT = next(name for name, make in PRESETS.items() if make("", "").steered)
"""The preset whose name says where the slider stands."""
CHOOSE_COUNT = f"""() => {{
  const given = Number(lens.address()?.settings.given.lanes);
  const large = document.documentElement.classList.contains("lens-projector");
  const width = window.innerWidth;
  const fits = (width >= {WIDE} || width <= {PHONE}) && !large ? {len(LANE_KEYS)} : {FEWEST};
  return [{FEWEST}, {len(LANE_KEYS)}].includes(given) ? given : fits;
}}"""
"""In the browser: what a person chose or an address says, else as many as fit; for a projector the fewest."""
_MOVED = f"""(value, ...presets) => presets.map((name) =>
  name === "{AT_DEFAULT}" && value !== {DEFAULT_THRESHOLD} ? "{OWN}" : name)"""
"""In the browser: a slider that moves leaves the preset that says where it stands."""


def build_count() -> gr.Radio:
    """The choice of the number of lanes, in the current Blocks; the page's script sets it once, by the page's width."""
    choices = list(range(FEWEST, len(LANE_KEYS) + 1))
    return gr.Radio(choices, value=FEWEST, label="Lanes", elem_id="lanes", min_width=10)


class LaneRow:
    """`lanes` are the controls of each; `count`, made by `build_count`, is the number of those that take part.

    `names` are the checkpoints offered, `ar` and `mars` those of the presets.
    """

    def __init__(self, count: gr.Radio, names: list[str], ar: str, mars: str) -> None:
        self.count = count
        with gr.Row(elem_classes="lens-lane-row"):
            choices = [make(ar, mars) for make in PRESETS.values()]
            self.lanes = [
                LaneControls(key, choice, names, ar, mars) for key, choice in zip(LANE_KEYS, choices, strict=True)
            ]

    @property
    def inputs(self) -> list[Component]:
        """The inputs of `read`, in order."""
        return [self.count, *(component for lane in self.lanes for component in lane.components)]

    def read(self, *values: Any) -> list[LaneChoice]:
        """The lanes that take part.

        Raises:
            ValueError: one sentence that names the lane, the control and what is allowed.
        """
        count, *rest = values
        if count not in range(FEWEST, len(LANE_KEYS) + 1):
            raise ValueError(f"The number of lanes must be from {FEWEST} to {len(LANE_KEYS)}, got {shown(count)}.")
        each = len(self.lanes[0].components)
        parts = [rest[start : start + each] for start in range(0, len(rest), each)]
        return [lane.read(*part) for lane, part in zip(self.lanes[: int(count)], parts, strict=False)]

    def wire(
        self, slider: gr.Slider, steer: Callable[..., Any], reading: Component, models: ModelsControl
    ) -> list[Any]:
        """Connect the controls with each other and with the slider; returns the events after which lanes have changed.

        `steer` handles a move of the slider: it takes the value and sets `reading`. `models` gives the presets' pair.
        """
        changed = list[Any]()
        for lane in self.lanes:
            preset = lane.preset
            to_preset = partial(_to_preset, lane, models)
            inputs = [preset, models.choice]
            chosen = preset.input(to_preset, inputs, lane.components, show_progress_on=preset, **LATEST)
            moved = chosen.then(_at_preset, [preset, slider], slider, **LATEST).then(steer, slider, reading, **LATEST)
            others = [component.input for component in lane.components if component is not preset]
            by_hand = gr.on(
                others,
                lane.changed,
                lane.components,
                lane.components,
                show_progress_on=preset,
                **LATEST,
            )
            lane.fold.expand(lane.unfolded, lane.components, lane.components, show_progress_on=preset, **LATEST)
            changed += [moved, by_hand]
        presets: list[Component] = [lane.preset for lane in self.lanes]
        slider.input(None, [slider, *presets], presets, js=_MOVED, queue=False, **QUIET)
        return changed


def _to_preset(lane: LaneControls, models: ModelsControl, preset: str, key: object) -> list[Any]:
    return lane.preset_updates(preset, models.pair(key))


def _at_preset(preset: str, value: float) -> Any:
    return DEFAULT_THRESHOLD if preset == AT_DEFAULT and value != DEFAULT_THRESHOLD else gr.skip()
