"""The settings of Compare in an address, checked like every other input. The browser writes them (address.js).

They are restored when the page is loaded and when the reader goes back or forward. An address holds the values that
differ from the defaults, under the names of the tab's `addressable` components. Anybody may have written it: a wrong
value is refused alone, and the others are used.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from gradio.components import Component

from app.browser import bundle
from app.compare import problems
from app.models.pairs import Pair
from app.scheduling import Limits
from app.tabs.compare import Tab
from app.tabs.lanes import LaneControls
from app.tabs.parts import QUIET, slider_value
from app.tabs.question import prompts, shown
from mars.config import DEFAULT_THRESHOLD
from mars.schema import page_json

MOST_NAMED = 12
LONGEST_NAMED = 60
_CHANGED = "(...values) => { lens.address()?.settings.change(values); }"
_COUNTED = "(count) => { lens.address()?.settings.give('lanes', count); }"
_OLD_PRESET = f"MARS τ = {DEFAULT_THRESHOLD}"
"""A preset that said where the slider stood, in addresses of before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A parsed address: its text by name (`said`), the usable `values` by name, and the names that were `refused`."""

    said: Mapping[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def check(self, names: Iterable[str], test: Callable[[], object]) -> None:
        """Refuse the address's values of `names` if `test` raises ValueError."""
        said = [name for name in names if name in self.values]
        try:
            if said:
                test()
        except ValueError:
            for name in said:
                self.refused.append(name)
                del self.values[name]


def read(text: object, components: Mapping[str, Component]) -> Found:
    """Read the values for `components` from the JSON object `text`; values that a control cannot have are refused."""
    found = Found(said=_said(text))
    for name, said in found.said.items():
        old = name.endswith(".preset") and said == _OLD_PRESET
        if old:
            found.values.setdefault("tau", DEFAULT_THRESHOLD)
        try:
            found.values[name] = value_of(components[name], "MARS" if old else said)
        except (KeyError, ValueError):
            found.refused.append(name)
    return found


def value_of(component: Component, text: str) -> Any:
    """The value of `component` that an address writes as `text`; ValueError if its control cannot have it."""
    if isinstance(component, gr.Dropdown | gr.Radio | gr.Checkbox):
        values = (True, False) if isinstance(component, gr.Checkbox) else (value for _, value in component.choices)
        for value in values:
            if written(value) == text:
                return value
        raise ValueError("no such choice")
    if isinstance(component, gr.Slider | gr.Number):
        return _number(component, text)
    return text


def written(value: object) -> str:
    """A value as the browser writes it: 3.0 as 3, true for True."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_question(found: Found, usual: tuple[str, int], limits: Limits) -> None:
    """Refuse a problem that does not exist, and texts and a length that are out of bounds."""
    task, seed = found.values.get("task", usual[0]), found.values.get("seed", usual[1])
    found.check(("task", "seed"), lambda: problems.find(task, seed))
    found.check(("prompt",), lambda: limits.check_prompt(found.values["prompt"]))
    found.check(("start",), lambda: limits.check_text(found.values["start"], "The start of the answer"))
    found.check(("limit",), lambda: limits.check_length(found.values["limit"]))


def message(found: Found, usual: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """For the masthead: the refused names, the `usual` values, in `others` those that differ for some `models`."""
    pairs = [[name[:LONGEST_NAMED], found.said[name][:LONGEST_NAMED]] for name in found.refused[:MOST_NAMED]]
    told = {"refused": pairs, "usual": usual, "others": others or {}, "time": time.monotonic()}
    return page_json(told)


def _said(text: object) -> dict[str, str]:
    try:
        said = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: value for name, value in said.items() if isinstance(value, str)}


def _number(component: gr.Slider | gr.Number, text: str) -> float:
    value = float(text)
    low, high = component.minimum, component.maximum
    if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        raise ValueError("out of range")
    if getattr(component, "precision", None) == 0 or value.is_integer():
        if not value.is_integer():
            raise ValueError("not a whole number")
        return int(value)
    return value


def connect(page: gr.Blocks, masthead: gr.HTML, tab: Tab) -> None:
    """Let the masthead write the settings of `tab` into the address, and set the tab from an address."""
    parts = tab.addressable
    tab.count.input(None, tab.count, None, js=_COUNTED, **QUIET)
    changes = [part.change for part in parts.values()]
    gr.on(changes, None, list(parts.values()), None, js=_CHANGED, **QUIET)
    outputs = [masthead, tab.answer, *tab.form.sections, *parts.values()]
    deep_link = DeepLink(tab)
    read_here = f"async () => {{ await {bundle.loaded()}; return [JSON.stringify(lens.compareParameters())]; }}"
    for event in (page.load, masthead.submit):
        restored = event(deep_link.restore, masthead, outputs, js=read_here, show_progress_on=masthead, **QUIET)
        tab.settle(restored)


class DeepLink:
    """Sets the components of `tab` from an address; `usual` are their values without one, `others` those by pair.

    An address that names a problem and no pair was written before there was a choice: it means the pair that has
    problems.
    """

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.parts = tab.addressable
        self.usual: dict[str, Any] = {name: part.value for name, part in self.parts.items()}
        _, self.usual["task"], self.usual["seed"] = problems.EXAMPLES[0]
        self.others = {pair.key: self._usual_of(pair) for pair in tab.pairs}

    def restore(self, text: str | None) -> list[Any]:
        """The values of the outputs: the message to the masthead, answer, visible parts, and the settings."""
        found = read(text, self.parts)
        check_question(found, (self.usual["task"], self.usual["seed"]), self.tab.runner.limits)
        pair = self._pair(found)
        lanes = {name: update for lane in self.tab.row.lanes for name, update in self._lane(lane, found, pair).items()}
        values = self.usual | self.others[pair.key] | found.values | {"models": pair.key}
        problem = problems.find(values["task"], values["seed"]) if pair.tasks else None
        answer = "" if "prompt" in found.values or problem is None else problems.known_answer(problem)
        values |= {"prompt": found.values.get("prompt", problem.prompt if problem else prompts(pair)[0])}
        settings = [lanes.get(name, values[name]) for name in self.parts]
        return [message(found, self.usual, self.others), answer, *shown(pair), *settings]

    def _pair(self, found: Found) -> Pair:
        models, tasks = self.tab.models, next((pair for pair in self.tab.pairs if pair.tasks), None)
        if "models" not in found.values and tasks is not None and found.values.keys() & {"task", "seed"}:
            return tasks
        return models.pair(found.values.get("models"))

    def _usual_of(self, pair: Pair) -> dict[str, Any]:
        """The usual values of this pair where they differ from `usual`."""
        values: dict[str, Any] = {
            "tau": slider_value(self.tab.starts[pair.key]),
            "limit": pair.max_new_tokens,
            "pace": pair.pace,
        }
        for lane in self.tab.row.lanes:
            updates = lane.preset_updates(self.usual[f"{lane.key}.preset"], pair)
            values |= {f"{lane.key}.{name}": value for name, value in _values(lane.named, updates).items()}
        return {name: value for name, value in values.items() if value != self.usual[name]}

    def _lane(self, lane: LaneControls, found: Found, pair: Pair) -> dict[str, Any]:
        """The updates of a lane: the values of the preset, if the address names one, then its other values."""
        names = {name: f"{lane.key}.{name}" for name in lane.named}
        usual = self.usual | self.others[pair.key]
        values = {name: usual[names[name]] for name in names}
        if names["preset"] in found.values:
            values |= _values(lane.named, lane.preset_updates(found.values[names["preset"]], pair))
        said = {name: found.values[names[name]] for name in names if names[name] in found.values}
        found.check(names.values(), lambda: lane.read(*(values | said).values()))
        kept = {name: value for name, value in said.items() if names[name] in found.values}
        updates = dict(zip(names, lane.updates(lane.read(*(values | kept).values()), pair), strict=True))
        return {names[name]: update for name, update in updates.items()}


def _values(named: dict[str, Component], updates: list[dict[str, Any]]) -> dict[str, Any]:
    """The values in the updates of these components; a component that stays as it is has none."""
    return {name: update["value"] for name, update in zip(named, updates, strict=True) if "value" in update}
