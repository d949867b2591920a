"""Requests of the harness and a journal: results that are there are not computed again, new ones are kept at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook, hash_args

from analysis.harness.journal import Journal

GENERATE = "generate_until"
Run = Callable[[list[Instance]], Iterable[tuple[Instance, Any]]]


def recall(journal: Journal, kind: str, requests: Sequence[Instance], run: Run) -> list[Any]:
    """The results of the requests, in order. `run` is given those that are not there, equal ones once."""
    keys = [hash_args(kind, request.args) for request in requests]
    fresh = {key: request for key, request in zip(keys, requests, strict=True) if key not in journal}
    if fresh:
        for request, result in run(list(fresh.values())):
            key = hash_args(kind, request.args)
            if key not in journal:
                journal.add(key, result)
    return [journal[key] for key in keys]


class Hook(CacheHook):
    """How the `hf` model tells of each likelihood as soon as it has it."""

    def __init__(self, journal: Journal):
        super().__init__(None)
        self._journal = journal

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Keep the result of a request; those of generating come with their measurements, by `recall`."""
        if attr != GENERATE:
            self._journal.add(hash_args(attr, req), res)
