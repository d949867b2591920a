"""Compare, set to what an address says, when the page is loaded and when the reader goes back or forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from app import assets, problems
from app.address import Found, check_question, message, read
from app.lane_choice import OWN
from app.tabs.lane_row import AT_DEFAULT
from app.tabs.parts import QUIET

if TYPE_CHECKING:
    from gradio.components import Component

    from app.tabs.compare import Tab
    from app.tabs.lane_settings import LaneControls

_READ = f"""() => {{
{assets.script("address-read.js")}
return [JSON.stringify(lensRead().views[LENS_FIRST_TAB] ?? {{}})];
}}"""
_CHANGED = "(...values) => { window.lensAddress?.settings.change(values); }"
_COUNTED = "(count) => { window.lensAddress?.settings.give('lanes', count); }"


def wire(page: gr.Blocks, masthead: gr.HTML, tab: Tab) -> None:
    """Let the masthead write the settings of `tab` into the address, and set them as an address says."""
    parts = tab.addressable
    tab.count.input(None, tab.count, None, js=_COUNTED, **QUIET)
    changes = [part.change for part in parts.values()]
    gr.on(changes, None, list(parts.values()), None, js=_CHANGED, **QUIET)
    outputs = [masthead, tab.problem, tab.answer, *parts.values()]
    restoring = Restoring(tab)
    for event in (page.load, masthead.submit):
        restored = event(restoring.restore, masthead, outputs, js=_READ, show_progress_on=masthead, **QUIET)
        tab.settle(restored.then(tab.steer, tab.threshold, tab.reading, **QUIET))


class Restoring:
    """What sets the components of `tab` to an address; `usual` is what they are without one."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.parts = tab.addressable
        self.usual: dict[str, Any] = {name: part.value for name, part in self.parts.items()}
        _, self.usual["task"], self.usual["seed"] = problems.EXAMPLES[0]

    def restore(self, text: str | None) -> list[Any]:
        """The values of the outputs: what the masthead is told, the problem, its answer, and the settings."""
        found = read(text, self.parts)
        check_question(found, (self.usual["task"], self.usual["seed"]), self.tab.runner.limits)
        lanes = {name: update for lane in self.tab.lanes for name, update in self._lane(lane, found).items()}
        values = self.usual | found.values
        problem = problems.find(values["task"], values["seed"])
        answer = "" if "prompt" in found.values else problems.known_answer(problem)
        values |= {"prompt": found.values.get("prompt", problem.prompt)}
        settings = [lanes.get(name, values[name]) for name in self.parts]
        return [message(found, self.usual), problem, answer, *settings]

    def _lane(self, lane: LaneControls, found: Found) -> dict[str, Any]:
        """The updates of a lane: its preset's values, if the address names one, and what it says besides."""
        names = {name: f"{lane.key}.{name}" for name in lane.named}
        values = {name: self.usual[names[name]] for name in names}
        if names["preset"] in found.values:
            values |= _values(lane.named, lane.preset_updates(found.values[names["preset"]]))
        said = {name: found.values[names[name]] for name in names if names[name] in found.values}
        found.check(names.values(), lambda: lane.read(*(values | said).values()))
        kept = {name: value for name, value in said.items() if names[name] in found.values}
        updates = dict(zip(names, lane.updates(lane.read(*(values | kept).values())), strict=True))
        steered = found.values.get("tau", self.usual["tau"]) != self.usual["tau"]
        if steered and updates["preset"]["value"] == AT_DEFAULT:
            updates["preset"]["value"] = OWN
        return {names[name]: update for name, update in updates.items()}


def _values(named: dict[str, Component], updates: list[dict[str, Any]]) -> dict[str, Any]:
    """The values in the updates of these components; those that stay as they are have none."""
    return {name: update["value"] for name, update in zip(named, updates, strict=True) if "value" in update}
