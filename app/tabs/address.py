"""The settings of Compare in an address, checked like every other input. The browser writes them (address.js).

They are restored when the page is loaded and when the reader goes back or forward. An address holds the values that
differ from the defaults, under the names of the tab's `addressable` components. Anybody may have written it: a wrong
value is refused alone, and the others are used.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gradio as gr
from gradio.components import Component

from app.browser import bundle
from app.compare import problems
from app.compare.lane_choice import LaneChoice
from app.models.pairs import Pair
from app.scheduling import Limits
from app.tabs.compare import Tab, threshold_of
from app.tabs.lanes import LaneControls, held, preset_values
from app.tabs.parts import LATEST, QUIET, slider_value
from app.tabs.question import shown
from mars.config import DEFAULT_THRESHOLD
from mars.schema import page_json, parse

_CHANGED = "(...values) => { lens.address()?.settings.change(values); }"
_COUNTED = "(count) => { lens.address()?.settings.give('lanes', count); }"
_TYPED = "((typed) => typed?.trim() && { prompt: typed })(document.querySelector('#prompt textarea')?.value)"
_OLD_PRESET = f"MARS τ = {DEFAULT_THRESHOLD}"
"""A preset that said where the slider stood, in addresses of before."""
Values = dict[str, Any]


def said_in(text: object) -> dict[str, str]:
    """What an address says, a JSON object of texts; nothing if it is something else."""
    try:
        said: dict[str, str] = parse(dict[str, str], text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return said


def read(said: Mapping[str, str], components: Mapping[str, Component]) -> Values:
    """The values for `components` in what an address says, without those that a control cannot have."""
    found = Values()
    for name, text in said.items():
        old = name.endswith(".preset") and text == _OLD_PRESET
        if old:
            found.setdefault("tau", DEFAULT_THRESHOLD)
        try:
            found[name] = value_of(components[name], "MARS" if old else text)
        except (KeyError, ValueError):
            continue
    return found


def value_of(component: Component, text: str) -> Any:
    """The value of `component` that an address writes as `text`; KeyError or ValueError if there is none."""
    if isinstance(component, gr.Dropdown | gr.Radio | gr.Checkbox):
        values = (True, False) if isinstance(component, gr.Checkbox) else (value for _, value in component.choices)
        return {written(value): value for value in values}[text]
    if not isinstance(component, gr.Slider | gr.Number):
        return text
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return int(number) if number.is_integer() else number


def written(value: object) -> str:
    """A value as the browser writes it: 3.0 as 3, true for True."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def keep(found: Values, names: Iterable[str], test: Callable[[], object]) -> None:
    """Drop the values of `names` if `test` raises ValueError."""
    said = found.keys() & set(names)
    try:
        if said:
            test()
    except ValueError:
        for name in said:
            del found[name]


def keep_question(found: Values, limits: Limits) -> None:
    """Drop a problem that does not exist, texts and numbers that are out of bounds."""
    _, task, seed = problems.EXAMPLES[0]
    keep(found, ("task", "seed"), lambda: problems.find(found.get("task", task), found.get("seed", seed)))
    keep(found, ("prompt",), lambda: limits.check_prompt(found["prompt"]))
    keep(found, ("start",), lambda: limits.check_text(found["start"], "The start of the answer"))
    keep(found, ("limit",), lambda: limits.check_length(found["limit"]))
    keep(found, ("tau",), lambda: threshold_of(found["tau"]))


def connect(page: gr.Blocks, masthead: gr.HTML, tab: Tab) -> None:
    """Let the masthead write the settings of `tab` into the address, and set the tab from an address."""
    parts = tab.addressable
    tab.count.input(None, tab.count, None, js=_COUNTED, **QUIET)
    changes = [part.change for part in parts.values()]
    gr.on(changes, None, list(parts.values()), None, js=_CHANGED, **QUIET)
    outputs, link = [masthead, tab.answer, *tab.form.sections, *parts.values()], DeepLink(tab)
    for event, typed in ((page.load, _TYPED), (masthead.submit, "{}")):
        said = f"JSON.stringify({{...{typed}, ...lens.compareParameters()}})"
        read_here = f"async () => {{ await {bundle.loaded()}; return [{said}]; }}"
        restored = event(link.restore, masthead, outputs, js=read_here, show_progress_on=masthead, **LATEST)
        tab.settle(restored)


class DeepLink:
    """Sets the components of `tab` from an address.

    An address that names a problem without its text, and no pair, means the pair that has problems.
    """

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.parts = tab.addressable

    def restore(self, text: str | None) -> list[Any]:
        """The values of the outputs: the message to the masthead, answer, visible parts, and the settings.

        The message has the texts that were `refused`, the `usual` values, and the time, as Gradio drops equal messages.
        """
        said = said_in(text)
        found = read(said, self.parts)
        keep_question(found, self.tab.runner.limits)
        pair = self._pair(found)
        usual = self._usual(pair)
        lanes = {name: update for lane in self.tab.row.lanes for name, update in self._lane(lane, found, usual, pair)}
        values = usual | found | {"models": pair.key}
        problem = problems.find(values["task"], values["seed"]) if pair.tasks else None
        values["prompt"] = found.get("prompt", problem.prompt if problem else problems.QUESTIONS[0][1])
        answer = problems.known_answer(problem) if problem and problem.prompt == values["prompt"] else ""
        refused = [item for item in said.items() if item[0] not in found]
        told = page_json({"refused": refused, "usual": usual, "time": time.monotonic()})
        return [told, answer, *shown(pair), *(lanes.get(name, values[name]) for name in self.parts)]

    def _pair(self, found: Values) -> Pair:
        tasks = next((pair for pair in self.tab.pairs if pair.tasks), None)
        if not found.keys() & {"models", "prompt"} and tasks is not None and found.keys() & {"task", "seed"}:
            return tasks
        return self.tab.pair(found.get("models"))

    def _usual(self, pair: Pair) -> Values:
        """The values that an address of this pair need not say."""
        values = {name: part.value for name, part in self.parts.items()}
        _, values["task"], values["seed"] = problems.EXAMPLES[0]
        values |= {"tau": slider_value(self.tab.starts[pair.key]), "limit": pair.max_new_tokens, "pace": pair.pace}
        for lane in self.tab.row.lanes:
            values |= _of(lane, preset_values(values[f"{lane.key}.preset"], pair))
        return values

    def _lane(self, lane: LaneControls, found: Values, usual: Values, pair: Pair) -> list[tuple[str, Any]]:
        """The updates of a lane: the values of the preset, if the address names one, then its other values."""
        names = [f"{lane.key}.{name}" for name in lane.named]
        base = usual | _of(lane, preset_values(found.get(f"{lane.key}.preset"), pair))

        def choice() -> LaneChoice:
            return lane.read(*((base | found)[name] for name in names))

        keep(found, names, choice)
        values = held(choice(), pair)
        return list(zip(names, lane.updates(values, values), strict=True))


def _of(lane: LaneControls, values: Values) -> Values:
    """The values under the names of an address."""
    return {f"{lane.key}.{name}": value for name, value in values.items()}
