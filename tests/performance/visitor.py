"""A visitor of the page without a browser: the same requests, and what the stage would show."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

API = "gradio_api/"
PATIENCE_SECONDS = 300.0
FULL_SPEED, READABLE = 0.0, 12.0
ENDED = ("done", "stopped", "failed")


class LostError(Exception):
    """A run that ended in no way that it should."""


@dataclass(slots=True)
class Shown:
    """What the stage shows: its state, the text of each lane, and the thresholds that passes were made with."""

    state: str = ""
    sentence: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    thresholds: dict[str, set[float | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, value: str) -> Shown:
        """From the value of the stage."""
        shown = cls()
        for line in value.splitlines():
            message = json.loads(line)
            kind, lane = message["kind"], message.get("lane", "")
            if kind in ("state", "refusal"):
                shown.state, shown.sentence = message.get("state", "refused"), message["sentence"]
            elif kind == "pass":
                shown.texts[lane] = shown.texts.get(lane, "") + "".join(token[0] for token in message["tokens"])
                shown.thresholds.setdefault(lane, set()).add(message["threshold"])
            elif kind == "end":
                shown.texts[lane] = shown.texts.get(lane, "") + message["tail"]
        return shown


class Visitor:
    """One session at the page at `url`; a context manager, whose end closes the page."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=PATIENCE_SECONDS)
        self.session = uuid4().hex
        config = self._http.get("config").raise_for_status().json()
        self._values = {part["id"]: part["props"].get("value") for part in config["components"]}
        self._ids = {part["props"].get("elem_id"): part["id"] for part in config["components"]}
        self._events = config["dependencies"]
        self._page = threading.Thread(target=self._stay, daemon=True)
        self._gone = threading.Event()

    def __enter__(self) -> Visitor:
        self._page.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.set()
        self._page.join(PATIENCE_SECONDS)
        self._http.close()

    def run(
        self, prompt: str, threshold: float, pace: float = FULL_SPEED, meanwhile: Callable[[], None] = lambda: None
    ) -> Shown:
        """Press Run and wait for the end; `meanwhile` is called once, when the first passes are there.

        Raises:
            LostError: the run failed, or its end never came.
        """
        answer = json.loads(self._start(prompt, threshold, pace))
        if answer["kind"] == "refusal":
            return Shown(state="refused", sentence=answer["sentence"])
        text, called = "", False
        for line in self._lines(answer["id"]):
            text += line + "\n"
            if not called and '"kind":"pass"' in line:
                called = True
                meanwhile()
        shown = Shown.of(text)
        if shown.state not in ENDED:
            raise LostError("the stream ended before the run did")
        return shown

    def start_and_leave(self, prompt: str, threshold: float) -> None:
        """Press Run, read a few lines, and cut the connection."""
        answer = json.loads(self._start(prompt, threshold, READABLE))
        for number, _ in enumerate(self._lines(answer["id"]) if answer["kind"] == "follow" else ()):
            if number == 5:
                return

    def move_slider(self, threshold: float) -> None:
        """Change the threshold while the run goes on."""
        event = self._event("threshold", "input")
        self._post("run/predict", {"data": [threshold], "fn_index": event["id"], "session_hash": self.session})

    def generate(self, prompt: str, threshold: float) -> str:
        """The text by the public endpoint, with the page's length limit: by default the endpoint has one of its own."""
        longest = self._values[self._ids["limit"]]
        body = {"prompt": prompt, "threshold": threshold, "max_new_tokens": longest}
        event = self._post("call/v2/generate", body)["event_id"]
        last: Any = None
        with self._http.stream("GET", f"{API}call/v2/generate/{event}") as response:
            for line in response.iter_lines():
                last = line if line.startswith("data: ") and line != "data: null" else last
        [answer] = json.loads((last or "data: [{}]").removeprefix("data: "))
        if answer.get("state") != "done":
            raise LostError(f"generate ended as {answer.get('state')}")
        return str(answer["text"])

    def _start(self, prompt: str, threshold: float, pace: float) -> str:
        """The stage's value after a press of Run."""
        event = self._event("run", "click")
        given = {"prompt": prompt, "threshold": threshold, "pace": pace}
        data = [self._given(component, given) for component in event["inputs"]]
        body = {"data": data, "fn_index": event["id"], "session_hash": self.session}
        return str(self._post("run/predict", body)["data"][0])

    def _lines(self, identity: str) -> Iterator[str]:
        """What a run writes, as its page reads it."""
        with self._http.stream("GET", f"runs/{identity}/events") as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield line.removeprefix("data: ")

    def _event(self, elem_id: str, kind: str) -> dict[str, Any]:
        wanted = [self._ids[elem_id], kind]
        found: dict[str, Any] = next(event for event in self._events if wanted in event["targets"])
        return found

    def _given(self, component: int, given: Mapping[str, Any]) -> Any:
        names = {number: name for name, number in self._ids.items()}
        return given.get(str(names.get(component)), self._values[component])

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.post(API + path, json=body).raise_for_status().json()
        return answer

    def _stay(self) -> None:
        with _heartbeat(self._http.base_url, self.session):
            self._gone.wait()


@contextmanager
def _heartbeat(url: httpx.URL, session: str) -> Iterator[None]:
    with httpx.stream("GET", url.join(f"{API}heartbeat/{session}"), timeout=httpx.Timeout(60.0, read=None)) as response:
        response.raise_for_status()
        yield
