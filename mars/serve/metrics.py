"""Prometheus metrics for `/metrics`: requests, the queue, times to tokens, and the rows of passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mars.records import ForwardPass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_EACH = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_WHOLE = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKENS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)


class Metrics:
    """Counters of one server, in a registry of their own. Threads may count at the same time.

    `requests` counts begun answers by route and status, `left` counts clients that have gone; `first` observes the
    seconds from a request to its first token.
    """

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        model = ("model",)
        self.requests = counter("mars_requests", "Requests answered", ("route", "status"))
        self.left = counter("mars_requests_left", "Requests whose client left before the end")
        self._prompt = counter("mars_prompt_tokens", "Tokens of prompts")
        self._completion = counter("mars_completion_tokens", "Tokens of answers")
        self._passes = counter("mars_passes", "Forward passes with rows of each layout", ("layout",))
        self._prefills = counter("mars_prefill_passes", "Forward passes that read prompts")
        self._running = gauge("mars_requests_running", "Requests that hold a row", model)
        self._waiting = gauge("mars_requests_waiting", "Requests in the queue", model)
        self._threshold = gauge("mars_threshold", "Threshold of open requests; 1 while they decode exactly", model)
        self.first = histogram("mars_time_to_first_token_seconds", "Until the first token", buckets=_FIRST)
        self._each = histogram("mars_time_per_output_token_seconds", "Between tokens after the first", buckets=_EACH)
        self._whole = histogram("mars_request_seconds", "From the request to its last token", buckets=_WHOLE)
        self._forward = histogram(
            "mars_tokens_per_forward", "Tokens of an answer over its passes", ("decoder",), buckets=_TOKENS
        )
        self._rows = histogram("mars_rows_per_pass", "Rows that a decoding pass wrote", buckets=_ROWS)
        self._pass = histogram("mars_pass_seconds", "Device time of a pass", ("phase",), buckets=_EACH)

    def watch(
        self, model: str, running: Callable[[], int], waiting: Callable[[], int], threshold: Callable[[], float | None]
    ) -> None:
        """Call these functions for the model's gauges whenever the metrics are read."""
        self._running.labels(model).set_function(running)
        self._waiting.labels(model).set_function(waiting)
        self._threshold.labels(model).set_function(lambda: 1.0 if (found := threshold()) is None else found)

    def finished(
        self, *, decoder: str, prompt: int, completion: int, passes: int, seconds: float, writing_seconds: float
    ) -> None:
        """Count an answer that is complete or was left by its client; `writing_seconds` follow its first token."""
        self._prompt.inc(prompt)
        self._completion.inc(completion)
        self._whole.observe(seconds)
        if completion > 1:
            self._each.observe(writing_seconds / (completion - 1))
        if passes:
            self._forward.labels(decoder).observe(completion / passes)

    def passed(self, record: ForwardPass, layouts: Iterable[str]) -> None:
        """Count a pass, in which rows had these layouts."""
        self._pass.labels(record.phase).observe(record.seconds)
        if record.phase == "prefill":
            self._prefills.inc()
            return
        self._rows.observe(len(record.rows))
        for layout in layouts:
            self._passes.labels(layout).inc()

    def text(self) -> bytes:
        """All of it, in Prometheus's text format."""
        return generate_latest(self._registry)
