"""Compare, set to what an address says, when the page is loaded and when the reader goes back or forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from app.compare import problems
from app.compare.lane_choice import OWN
from app.tabs.address import Found, check_question, message, read
from app.tabs.lane_row import AT_DEFAULT
from app.tabs.models import first_prompt, shown
from app.tabs.parts import QUIET

if TYPE_CHECKING:
    from gradio.components import Component

    from app.models.pairs import Pair
    from app.tabs.compare import Tab
    from app.tabs.lane_settings import LaneControls

_READ = "() => [JSON.stringify(lens.compareParameters())]"
_CHANGED = "(...values) => { lens.address()?.settings.change(values); }"
_COUNTED = "(count) => { lens.address()?.settings.give('lanes', count); }"


def connect(page: gr.Blocks, masthead: gr.HTML, tab: Tab) -> None:
    """Let the masthead write the settings of `tab` into the address, and set them as an address says."""
    parts = tab.addressable
    tab.count.input(None, tab.count, None, js=_COUNTED, **QUIET)
    changes = [part.change for part in parts.values()]
    gr.on(changes, None, list(parts.values()), None, js=_CHANGED, **QUIET)
    outputs = [masthead, tab.problem, tab.answer, *tab.sections, *parts.values()]
    deep_link = DeepLink(tab)
    for event in (page.load, masthead.submit):
        restored = event(deep_link.restore, masthead, outputs, js=_READ, show_progress_on=masthead, **QUIET)
        tab.settle(restored.then(tab.steer, tab.threshold, tab.reading, **QUIET))


class DeepLink:
    """Sets the components of `tab` to an address; `usual` are their values without one, `others` the same by pair.

    An address that names a problem and no pair is one of the time before there was a choice, and means the pair that
    knows problems.
    """

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.parts = tab.addressable
        self.usual: dict[str, Any] = {name: part.value for name, part in self.parts.items()}
        _, self.usual["task"], self.usual["seed"] = problems.EXAMPLES[0]
        self.others = {pair.key: self._usual_of(pair) for pair in tab.pairs}

    def restore(self, text: str | None) -> list[Any]:
        """The values of the outputs: what the masthead is told, problem, answer, what is shown, and the settings."""
        found = read(text, self.parts)
        check_question(found, (self.usual["task"], self.usual["seed"]), self.tab.runner.limits)
        pair = self._pair(found)
        lanes = {name: update for lane in self.tab.lanes for name, update in self._lane(lane, found, pair).items()}
        values = self.usual | self.others[pair.key] | found.values | {"models": pair.key}
        problem = problems.find(values["task"], values["seed"]) if pair.tasks else None
        answer = "" if "prompt" in found.values or problem is None else problems.known_answer(problem)
        values |= {"prompt": found.values.get("prompt", problem.prompt if problem else first_prompt(pair))}
        settings = [lanes.get(name, values[name]) for name in self.parts]
        return [message(found, self.usual, self.others), problem, answer, *shown(pair), *settings]

    def _pair(self, found: Found) -> Pair:
        models, tasks = self.tab.models, self.tab.models.with_tasks()
        if "models" not in found.values and tasks is not None and found.values.keys() & {"task", "seed"}:
            return tasks
        return models.pair(found.values.get("models"))

    def _usual_of(self, pair: Pair) -> dict[str, Any]:
        """The usual values that differ with this pair."""
        values: dict[str, Any] = {"limit": pair.max_new_tokens, "pace": pair.pace}
        for lane in self.tab.lanes:
            updates = lane.preset_updates(self.usual[f"{lane.key}.preset"], pair)
            values |= {f"{lane.key}.{name}": value for name, value in _values(lane.named, updates).items()}
        return {name: value for name, value in values.items() if value != self.usual[name]}

    def _lane(self, lane: LaneControls, found: Found, pair: Pair) -> dict[str, Any]:
        """The updates of a lane: its preset's values, if the address names one, and what it says besides."""
        names = {name: f"{lane.key}.{name}" for name in lane.named}
        usual = self.usual | self.others[pair.key]
        values = {name: usual[names[name]] for name in names}
        if names["preset"] in found.values:
            values |= _values(lane.named, lane.preset_updates(found.values[names["preset"]], pair))
        said = {name: found.values[names[name]] for name in names if names[name] in found.values}
        found.check(names.values(), lambda: lane.read(*(values | said).values()))
        kept = {name: value for name, value in said.items() if names[name] in found.values}
        updates = dict(zip(names, lane.updates(lane.read(*(values | kept).values()), pair), strict=True))
        steered = found.values.get("tau", self.usual["tau"]) != self.usual["tau"]
        if steered and updates["preset"]["value"] == AT_DEFAULT:
            updates["preset"]["value"] = OWN
        return {names[name]: update for name, update in updates.items()}


def _values(named: dict[str, Component], updates: list[dict[str, Any]]) -> dict[str, Any]:
    """The values in the updates of these components; those that stay as they are have none."""
    return {name: update["value"] for name, update in zip(named, updates, strict=True) if "value" in update}
