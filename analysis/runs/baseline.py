"""The baselines of runs, in accuracy and in speed, for claims and figures. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from analysis.runs.schema import DEFAULT_SETTINGS
from mars import decoders

AR = "sft"
_AR_STAGES = (AR, None)
"""A model without a record of its training, such as one of others, was not trained to fill masks."""
SIMILAR_SIZE = 0.05
"""Models whose parameters differ in number by less than this share are of one size: a mask token may be added."""

Fields = Mapping[str, Any]
"""A model as docs/runs.md has it, or its run."""


def writes_one_token(decoder: str, threshold: float | None) -> bool:
    """Whether a decoder writes one token per pass, and so the text of AR decoding with the same weights."""
    info = decoders.TABLE.get(decoder)
    return info is not None and (info.family == "ar" or (info.has_one_token_mode and threshold is None))


def is_plain(entry: Fields) -> bool:
    """Whether a run is greedy: only such runs are judged by claims and are baselines of figures."""
    return {**DEFAULT_SETTINGS, **entry["settings"]}["temperature"] == 0


def of_one_size(parameters: int, others: int) -> bool:
    """Whether models with so many parameters are of one size."""
    return abs(parameters - others) <= SIMILAR_SIZE * max(parameters, others)


class ArModels:
    """The AR models of a store that were run in one-token mode: those with most such runs first, then by examples."""

    def __init__(self, entries: Iterable[Fields]) -> None:
        runs: Counter[str] = Counter()
        models: dict[str, Fields] = {}
        commands: dict[str, set[str]] = {}
        for entry in entries:
            commands.setdefault(entry["model"]["fingerprint"], set()).add(entry.get("command", ""))
            model, threshold = entry["model"], entry["settings"].get("threshold", DEFAULT_SETTINGS["threshold"])
            if model["stage"] in _AR_STAGES and is_plain(entry) and writes_one_token(entry["decoder"], threshold):
                models.setdefault(model["fingerprint"], model)
                runs[model["fingerprint"]] += 1
        order = {name: (-runs[name], -(model["examples"] or 0), model["name"]) for name, model in models.items()}
        self._commands = commands
        self._models = [models[name] for name in sorted(models, key=lambda name: (order[name], name))]

    def baseline_of(self, model: Fields) -> str | None:
        """The fingerprint of the AR model that a model is compared with: among those of its size, with most runs.

        An AR model that has seen twice as many conversations counts as the compute-matched one, unless there is no
        other. An adapter is compared with the AR adapter on its base that a command ran beside it, else with that base.
        """
        if model.get("base"):
            own = self._commands.get(model["fingerprint"], set())
            beside = (other for other in self._models if own & self._commands[other["fingerprint"]])
            start = (other for other in beside if other.get("base") == model["base"] and not _is_twice(other, model))
            if found := next(start, None):
                return str(found["fingerprint"])
        if model.get("base") in {other["fingerprint"] for other in self._models}:
            return str(model["base"])
        alike = self._alike(model)
        others = [other for other in alike if not _is_twice(other, model)] or alike
        return str(others[0]["fingerprint"]) if others else None

    def compute_matched(self, model: Fields) -> str | None:
        """The fingerprint of an AR model with twice the conversations: as many tokens as the two streams of MARS."""
        found = (str(other["fingerprint"]) for other in self._alike(model) if _is_twice(other, model))
        twice = next(found, None)
        return None if twice == self.baseline_of(model) else twice

    def _alike(self, model: Fields) -> list[Fields]:
        return [other for other in self._models if of_one_size(other["parameters"], model["parameters"])]


def _is_twice(other: Fields, model: Fields) -> bool:
    return bool(model["examples"]) and other["examples"] == 2 * model["examples"]
