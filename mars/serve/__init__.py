"""An OpenAI-compatible endpoint on `mars.decoding.service`: `python -m mars.serve --help` and docs/serving.md.

Its limits, with their defaults, stand here: the command line tells them before anything else is imported.
"""

from __future__ import annotations

from dataclasses import dataclass

PLACES, QUEUE = 8, 64
"""Requests that are decoded at once, and those that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """`connections` are requests at once, those in the queue included; `new_tokens` the longest answer.

    A body must arrive within `body_seconds`, and a client must read each event within `send_seconds`.
    """

    body_bytes: int = 2**20
    body_seconds: float = 20.0
    send_seconds: float = 30.0
    connections: int = 256
    new_tokens: int = 1024
