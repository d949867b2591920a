"""The settings of Compare in an address, checked like every other input. The browser writes them (address.js).

An address holds the values that differ from the defaults, under the names of the tab's `addressable` components.
Anybody may have written it: each wrong value is refused by itself, and the others are used.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from gradio.components import Component

from app.compare import problems
from app.scheduling.limits import Limits

MOST_NAMED = 12
LONGEST_NAMED = 60
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An address as read: all that was `said`, the usable `values` by name, and the names that were `refused`."""

    said: Mapping[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def check(self, names: Iterable[str], test: Callable[[], object]) -> None:
        """Refuse what the address says under `names` if `test` raises ValueError."""
        said = [name for name in names if name in self.values]
        try:
            if said:
                test()
        except ValueError:
            for name in said:
                self.refused.append(name)
                del self.values[name]


def read(text: object, components: Mapping[str, Component]) -> Found:
    """The values for `components` in the JSON object `text`: only those that their controls could have."""
    found = Found(said=_said(text))
    for name, said in found.said.items():
        try:
            found.values[name] = value_of(components[name], said)
        except (KeyError, ValueError):
            found.refused.append(name)
    return found


def value_of(component: Component, text: str) -> Any:
    """The value of `component` that an address writes as `text`.

    Raises:
        ValueError: its control cannot have such a value.
    """
    if isinstance(component, gr.Dropdown | gr.Radio):
        choices = {written(value): value for _, value in component.choices}
        return _one_of(choices, text)
    if isinstance(component, gr.Checkbox):
        return _one_of(_SWITCH, text)
    if isinstance(component, gr.Slider | gr.Number):
        return _number(component, text)
    return text


def written(value: object) -> str:
    """A value as the browser writes it: 3.0 as 3, true for True."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_question(found: Found, usual: tuple[str, int], limits: Limits) -> None:
    """Refuse a problem that does not exist, a prompt, and a length that are out of bounds."""
    task, seed = found.values.get("task", usual[0]), found.values.get("seed", usual[1])
    found.check(("task", "seed"), lambda: problems.find(task, seed))
    found.check(("prompt",), lambda: limits.check_prompt(found.values["prompt"]))
    found.check(("limit",), lambda: limits.check_length(found.values["limit"]))


def message(found: Found, usual: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The message for the masthead: the refused names, and the `usual` value of each name. JSON without `<`.

    `others` are, by the value of `models`, the usual values that are other ones with that choice.
    """
    pairs = [[name[:LONGEST_NAMED], found.said[name][:LONGEST_NAMED]] for name in found.refused[:MOST_NAMED]]
    told = {"refused": pairs, "usual": usual, "others": others or {}, "time": time.monotonic()}
    return json.dumps(told).replace("<", "\\u003c")


def _said(text: object) -> dict[str, str]:
    try:
        said = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: value for name, value in said.items() if isinstance(value, str)}


def _one_of(choices: Mapping[str, Any], text: str) -> Any:
    if text not in choices:
        raise ValueError("no such choice")
    return choices[text]


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
