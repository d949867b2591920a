"""One request to the endpoint as a client sees it: streamed, timed, and left in the middle where it should be."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The outcome of a request. Seconds are from its sending; `first` is None where no token came.

    `finish` is the finish reason, None where the stream broke off or was left.
    """

    status: int
    text: str = ""
    tokens: int = 0
    first: float | None = None
    seconds: float = 0.0
    finish: str | None = None
    retry_after: float = 0.0


async def ask(client: httpx.AsyncClient, body: dict[str, Any], *, leave_after: int | None = None) -> Asked:
    """Stream an answer; with `leave_after`, go after so many events."""
    began = time.perf_counter()
    text, tokens, first, finish, events = "", 0, None, None, 0
    told = {**body, "stream": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", "/v1/chat/completions", json=told) as answer:
        if answer.status_code != 200:
            await answer.aread()
            return Asked(status=answer.status_code, retry_after=float(answer.headers.get("retry-after", 0)))
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            events += 1
            for choice in event.get("choices", ()):
                said = choice["delta"].get("content", "")
                if said and first is None:
                    first = time.perf_counter() - began
                text += said
                finish = choice["finish_reason"] or finish
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
            if leave_after is not None and events >= leave_after:
                return Asked(status=200, text=text, first=first, seconds=time.perf_counter() - began)
    seconds = time.perf_counter() - began
    return Asked(status=200, text=text, tokens=tokens, first=first, seconds=seconds, finish=finish)


def chat(prompt: str, tokens: int, **options: Any) -> dict[str, Any]:
    """The body of a request."""
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, **options}


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of these values that at least such a share of them do not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))
