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


class Follower:
    """Fetches what a run writes, as the page does; `meanwhile` is called once, when the first passes are there."""

    def __init__(self, http: httpx.Client, value: str, meanwhile: Callable[[], None]) -> None:
        self._http = http
        self._path = f"pictures/{json.loads(value.splitlines()[0])['id']}"
        self._text = value
        self._meanwhile = meanwhile
        self._over = threading.Event()
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def end(self) -> str:
        """All that was fetched, once there is no more.

        Raises:
            LostError: the lines could not be fetched.
        """
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)
        if self._failed:
            raise LostError("the lines of a run could not be fetched") from self._failed
        return self._text

    def _follow(self) -> None:
        called = False
        try:
            while not self._over.is_set():
                answer = self._http.get(self._path, params={"after": self._text.count("\n")}).raise_for_status()
                self._text += answer.text
                if not called and '"kind":"pass"' in self._text:
                    called = True
                    self._meanwhile()
                self._over.wait(int(answer.headers.get("x-lens-again", 1000)) / 1000)
        except (httpx.HTTPError, ValueError) as error:
            self._failed = error


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
        event = self._event("run", "click")
        given = {"prompt": prompt, "threshold": threshold, "pace": pace}
        data = [self._given(component, given) for component in event["inputs"]]
        self._post("queue/join", {"data": data, "fn_index": event["id"], "session_hash": self.session})
        follower: Follower | None = None
        for message in self._messages(f"queue/data?session_hash={self.session}"):
            if message["msg"] == "process_generating" and follower is None:
                follower = Follower(self._http, message["output"]["data"][0], meanwhile)
            if message["msg"] == "process_completed":
                if not message["success"]:
                    raise LostError(f"the run failed: {message['output']}")
                fetched = follower.end() if follower else ""
                value = message["output"]["data"][0]
                return Shown.of(value if isinstance(value, str) else fetched)
        raise LostError("the stream ended before the run did")

    def start_and_leave(self, prompt: str, threshold: float) -> None:
        """Press Run, look at a few pictures, and cut the connection."""
        event = self._event("run", "click")
        data = [
            self._given(part, {"prompt": prompt, "threshold": threshold, "pace": READABLE}) for part in event["inputs"]
        ]
        self._post("queue/join", {"data": data, "fn_index": event["id"], "session_hash": self.session})
        for number, _ in enumerate(self._messages(f"queue/data?session_hash={self.session}")):
            if number == 5:
                return

    def move_slider(self, threshold: float) -> None:
        """Change the threshold while the run goes on."""
        event = self._event("threshold", "input")
        self._post("run/predict", {"data": [threshold], "fn_index": event["id"], "session_hash": self.session})

    def generate(self, prompt: str, threshold: float) -> str:
        """The text by the public endpoint."""
        event = self._post("call/v2/generate", {"prompt": prompt, "threshold": threshold})["event_id"]
        last: Any = None
        with self._http.stream("GET", f"{API}call/v2/generate/{event}") as response:
            for line in response.iter_lines():
                last = line if line.startswith("data: ") and line != "data: null" else last
        [answer] = json.loads((last or "data: [{}]").removeprefix("data: "))
        if answer.get("state") != "done":
            raise LostError(f"generate ended as {answer.get('state')}")
        return str(answer["text"])

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

    def _messages(self, path: str) -> Iterator[dict[str, Any]]:
        with self._http.stream("GET", API + path) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def _stay(self) -> None:
        with _heartbeat(self._http.base_url, self.session):
            self._gone.wait()


@contextmanager
def _heartbeat(url: httpx.URL, session: str) -> Iterator[None]:
    with httpx.stream("GET", url.join(f"{API}heartbeat/{session}"), timeout=httpx.Timeout(60.0, read=None)) as response:
        response.raise_for_status()
        yield
