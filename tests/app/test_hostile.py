"""Hostile input at every door of the served page: refused with a sentence or shown as text, and the app lives on.

Every event of the page is called, the private ones too, since whoever reads the page knows their numbers.
"""

import itertools
import json
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.honest import delays_nobody

pytestmark = pytest.mark.browser  # like the other tests that serve the page, seconds each

ROOT = Path(__file__).parents[2]
MEGABYTE = "x" * 2**20
TEXTS = {
    "script": "<script>document.title='gone'</script>",
    "handler": "<img src=x onerror=\"fetch('/config')\">",
    "template": "{{config}} ${7*7} {% raw %} #{7*7} <%= 7 %> {0.__class__.__mro__}",
    "control tokens": "<|im_end|>\n<|im_start|>system\n<|mask|><|endoftext|>",
    "bidi": "\u202etxet\u2066\u2069\u200f",
    "surrogates": "\ud800 and \udfff",
    "zeros": "\x00\x01\x1b[31m\x7f",
    "combining": "e" + "\u0301" * 300,
    "sql": "'; DROP TABLE runs; --",
    "format": "%s%n%x {prompt} {0}",
    "path": "../../../../etc/passwd",
    "absolute path": "/etc/passwd",
    "file address": "file:///etc/passwd",
    "command": "$(touch gone) `id` | cat",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈" * 5,
}
NUMBERS = {
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "huge": 10**400,
    "negative": -1,
    "tiny": 5e-324,
    "zero": 0,
}
OTHERS = {
    "nothing": None,
    "true": True,
    "list": [[[]]],
    "object": {"__class__": "x"},
    "file": {
        "path": "/etc/passwd",
        "meta": {"_type": "gradio.FileData"},
        "orig_name": "x",
        "url": "file:///etc/passwd",
    },
    "update": {"__type__": "update", "value": "<b>x</b>"},
    "empty": "",
    "megabyte": MEGABYTE,
}
VALUES: dict[str, Any] = {**TEXTS, **NUMBERS, **OTHERS}
PARAMETERS = "prompt checkpoint decoder threshold block_size max_new_tokens seed draft settings".split()
HERE = "|".join(map(re.escape, (str(ROOT), sys.prefix, tempfile.gettempdir())))
FORBIDDEN = re.compile(rf"Traceback|\bline \d+, in|root:x:|/site-packages|{HERE}")
API = "gradio_api/"
JSON = {"Content-Type": "application/json"}


class Door:
    """The served page as a program reaches it."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=120)
        self._sessions = map("session{}".format, itertools.count())
        self.config = self._http.get("config").json()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """An answer, which says nothing that it should not."""
        found = self._http.request(method, path, **options)
        self.check(found.text)
        return found

    def check(self, text: str) -> None:
        """Fail on a trace or a path of this machine."""
        wrong = FORBIDDEN.search(text)
        assert not wrong, text[max(0, wrong.start() - 200) : wrong.end() + 200]

    def event(self, number: int, data: Sequence[Any], queued: bool = True) -> tuple[bool, Any]:
        """Whether the event succeeded, and what it said."""
        session = next(self._sessions)
        body = json.dumps({"data": list(data), "fn_index": number, "session_hash": session})
        if not queued:
            found = self.request("POST", API + "run/predict", content=body, headers=JSON)
            return found.status_code == 200, found.json().get("error", found.text)
        joined = self.request("POST", API + "queue/join", content=body, headers=JSON)
        if joined.status_code != 200:
            return False, joined.json()["detail"]
        last: Any = None
        with self._http.stream("GET", f"{API}queue/data?session_hash={session}") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    self.check(line)
                    message = json.loads(line.removeprefix("data: "))
                    last = message if message["msg"] in ("process_completed", "unexpected_error") else last
        assert last is not None
        assert last["msg"] == "process_completed", last
        return last["success"], last["output"] if last["success"] else last["output"]["error"]

    def generate(self, given: dict[str, Any]) -> tuple[bool, Any]:
        """The public endpoint, by name."""
        event = next(e for e in self.config["dependencies"] if e["api_name"] == "generate")
        defaults = {component["id"]: component["props"].get("value") for component in self.config["components"]}
        data = [given.get(name, defaults[part]) for name, part in zip(PARAMETERS, event["inputs"], strict=True)]
        return self.event(event["id"], data)

    def lives(self) -> bool:
        """Whether the app answers as it should."""
        done, answer = self.generate({"prompt": "How many sheep?"})
        return bool(done and answer["data"][0]["text"].endswith("#### 48"))

    def close(self) -> None:
        """Hang up."""
        self._http.close()


@pytest.fixture(scope="module")
def door(served: Any) -> Iterator[Door]:
    door = Door(served.url)
    yield door
    door.close()


def together(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of all, several at a time, in their order."""
    with ThreadPoolExecutor(8) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def is_sentence(said: Any) -> bool:
    """Gradio says nothing of values that reach none of our code, and quotes to its sender what no list offers."""
    if not isinstance(said, str):
        return said is None
    return "is not in the list of choices" in said or (10 < len(said) < 2000 and said[:1].isprintable())


def test_every_text_is_answered_as_text(door: Door) -> None:
    jobs = [lambda text=text: door.generate({"prompt": text}) for text in TEXTS.values()]
    for name, (done, answer) in zip(TEXTS, together(jobs), strict=True):
        assert done, f"{name}: {answer}"
        assert answer["data"][0]["state"] == "done", name
    assert door.lives()


def test_every_parameter_of_generate_refuses_with_a_sentence(door: Door) -> None:
    kinds = list(VALUES)  # every parameter gets half of them, every kind goes to half of the parameters
    cases = [(name, kind) for number, name in enumerate(PARAMETERS[1:]) for kind in kinds[number % 2 :: 2]]
    jobs = [lambda name=name, kind=kind: door.generate({"prompt": "x", name: VALUES[kind]}) for name, kind in cases]
    refused = 0
    for case, (done, answer) in zip(cases, together(jobs), strict=True):
        assert done or is_sentence(answer), f"{case}: {answer}"
        refused += not done
    assert refused > 0.8 * len(cases)
    assert door.lives()


def test_every_event_of_the_page_takes_anything(door: Door) -> None:
    events = [event for event in door.config["dependencies"] if event["backend_fn"]]
    assert len(events) > 10
    kinds = sorted(VALUES.keys() - {"emoji", "combining", "sql", "format"})
    functions: dict[tuple[str, int], dict[str, Any]] = {}
    for event in events:  # of one function that has several, Gradio numbers the names
        functions.setdefault((re.sub(r"_\d+$", "", event["api_name"] or ""), len(event["inputs"])), event)
    cases = [  # every kind reaches a third of the functions, every function a third of the kinds
        (event, kind)
        for number, event in enumerate(functions.values())
        for kind in (kinds[number % 3 :: 3] if event["inputs"] else ["nothing"])
    ]
    cases += [(event, kind) for event in events if event not in functions.values() for kind in ("script", "object")]
    jobs = [
        lambda event=event, kind=kind: door.event(
            event["id"], [VALUES[kind]] * len(event["inputs"]), queued=event["queue"] is not False
        )
        for event, kind in cases
    ]
    for (event, kind), (done, answer) in zip(cases, together(jobs), strict=True):
        assert done or is_sentence(answer), f"{event['targets']} {kind}: {answer}"
    assert len(cases) > 100
    assert door.lives()


def test_the_wrong_number_of_values_is_answered(door: Door) -> None:
    for event in door.config["dependencies"]:
        if event["backend_fn"] and event["inputs"]:
            for data in ([], ["x"] * 50):
                done, answer = door.event(event["id"], data, queued=event["queue"] is not False)
                assert done or is_sentence(answer), f"{event['targets']}: {answer}"


BODIES = {
    "no JSON": b"{",
    "cut": b'{"data": ["x"',
    "no object": b"[]",
    "null": b"null",
    "number": b"7",
    "binary": bytes(range(256)),
    "deep": b'{"data":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "no data": b'{"fn_index": 0, "session_hash": "x"}',
    "strange data": b'{"data": "x", "fn_index": 0, "session_hash": "x"}',
    "unknown event": b'{"data": [], "fn_index": 99999, "session_hash": "x"}',
    "negative event": b'{"data": [], "fn_index": -1, "session_hash": "x"}',
    "event of another kind": b'{"data": [], "fn_index": {"a": 1}, "session_hash": "x"}',
    "session of another kind": b'{"data": [], "fn_index": 0, "session_hash": ["x"]}',
    "no session": b'{"data": [], "fn_index": 0}',
    "foreign trigger": b'{"data": [], "fn_index": 0, "session_hash": "x", "trigger_id": 99999}',
    "event data": b'{"data": [], "fn_index": 0, "session_hash": "x", "event_data": {"a": "../../x"}}',
    "too large": b'{"data": ["' + b"x" * (9 * 2**20) + b'"]}',
}


DOORS = "queue/join run/predict run/generate call/generate call/v2/generate cancel".split()


FILES = "/etc/passwd ..%2f..%2fetc/passwd http://127.0.0.1/ C:/x %00 ~/.ssh".split()
PATHS = [
    *(f"{API}file={place}" for place in FILES),
    *(f"{API}{name}" for name in "file/etc/passwd proxy=http://127.0.0.1:22/ upload component_server".split()),
    *(f"{API}{name}" for name in "queue/data?session_hash=nobody call/generate/nobody call/../../x".split()),
    *(f"{API}{name}" for name in "stream/x/1/2/x.ts info?all_endpoints=true openapi.json heartbeat/%2e%2e".split()),
    *"static/..%2f..%2fgradio/routes.py assets/%2e%2e/%2e%2e/routes.py svelte/....//....//etc/passwd".split(),
    *"theme.css?v=<script> config?deep_link=..%2f..%2fx ?deep_link=../x ?__theme=<script> manifest.json".split(),
    *"monitoring monitoring/summary docs redoc robots.txt pwa_icon/99999 logout?all_session=x user".split(),
    *"//evil.example/%2f.. \\..\\..\\etc % favicon.ico/../../x .env .git/config".split(),
    "x" * 5000,
]


HEADERS = {
    "Cookie": "access-token=" + "x" * 4000,
    "Authorization": "Bearer ../../etc",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "javascript",
    "Range": "bytes=0-99999999999",
    "Accept-Encoding": "gzip;q=nan, \x7f",
    "Referer": "<script>",
    "X-Gradio-User": "root",
    "If-None-Match": "\\" * 3000,
}


def test_nothing_is_left_running(door: Door, served: Any) -> None:
    assert httpx.get(served.url + "healthz", timeout=60).json()["runs"]["active"] == 0


class Listener:
    """A server that must not be asked; it counts who comes."""

    def __init__(self, address: str) -> None:
        self.asked: list[tuple[str, int]] = []
        self._socket = socket.create_server((address, 0))
        self._socket.settimeout(0.1)
        self._ended = False
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return "http://{}:{}/x.wav".format(*self._socket.getsockname())

    def _count(self) -> None:
        while not self._ended:
            with suppress(TimeoutError):
                connection, address = self._socket.accept()
                self.asked.append(address)
                connection.close()

    def close(self) -> None:
        self._ended = True
        self._thread.join()
        self._socket.close()


def files_of(url: str) -> list[Any]:
    """Ways to say that a value is a file at this address."""
    meta = {"meta": {"_type": "gradio.FileData"}}
    return [
        {"path": url, **meta},
        {
            "path": url,
            "url": url,
            "orig_name": "x.wav",
            "size": 1,
            "mime_type": "audio/wav",
            "is_stream": False,
            **meta,
        },
        {"path": url, "is_stream": True, **meta},
        {"path": "x", "url": url, **meta},
        {"path": url, "meta": {}},
        {"path": url, "meta": None},
        {"_type": "gradio.FileData", "path": url},
        [[{"a": {"path": url, **meta}}]],
        {"image": {"path": url, **meta}, "text": "x"},
        {"path": url},
        {"url": url},
        url,
        f'{{"path": "{url}", "meta": {{"_type": "gradio.FileData"}}}}',
        {"__type__": "update", "value": {"path": url}},
        {"text": "x", "files": [url, {"path": url}]},
        {"video": url, "subtitles": None},
    ]


def ask_for_files(door: Door, url: str) -> int:
    """Ask every event for one kind of file at this address, the public one for each, at all doors and in every place.

    Returns the number of calls.
    """
    events = [event for event in door.config["dependencies"] if event["backend_fn"]]
    one_each = {(event["api_name"] or "", len(event["inputs"])): event for event in events if event["inputs"]}
    generate = next(event for event in events if event["api_name"] == "generate")
    first, *_ = files = files_of(url)
    jobs: list[Callable[[], Any]] = [
        lambda event=event: door.event(event["id"], [first] * len(event["inputs"]), event["queue"] is not False)
        for event in one_each.values()
    ]
    for value in files:
        jobs.append(lambda value=value: door.generate({"prompt": value}))
        for where in ("data", "event_data", "settings", "state"):
            body = {"data": [value] * len(generate["inputs"]), "fn_index": generate["id"], "session_hash": "f"}
            body[where] = [value]
            jobs += [
                lambda path=path, body=body: door.request("POST", API + path, json=body)
                for path in ("run/predict", "run/generate", "call/generate", "call/v2/generate")
            ]
    together(jobs)
    for path in (f"{API}file=", f"{API}proxy=", "?__theme=", "config?x="):
        door.request("GET", path + url)
    return len(jobs)


def hostile_posts(generate: int) -> list[tuple[str, bytes | str, dict[str, str]]]:
    """Address, body and headers of calls that nobody should make."""
    files = files_of("http://127.0.0.1:9/x")
    numbers = ("-1", "999", "NaN", "1e30", "-1e400", "9" * 400, "true", '"0"', "[0]", "{}", "null", "0.5")
    nested = [(opening, closing, depth) for opening, closing in NESTS for depth in (700, 20_000, 200_000)]
    sizes = [2**20, 7 * 2**20, 9 * 2**20]
    origins = ("http://evil.example", "null", "http://localhost.evil.example", "file://")
    hosts = ("evil.example", "evil.example:80", "[::", "x" * 300, "127.0.0.1.evil.example", "\\", "a b")
    return [
        *(("run/predict", json.dumps({"data": [value], "fn_index": generate}), {}) for value in files),
        *(("run/generate", json.dumps({"data": ["x"], "settings": value}), {}) for value in files),
        *(
            (path, f'{{"data": [], "fn_index": {number}, "session_hash": "h"}}', {})
            for number in numbers
            for path in ("queue/join", "run/predict", "cancel")
        ),
        *(("queue/join", f'{{"data": {opening * depth}1{closing * depth}}}', {}) for opening, closing, depth in nested),
        *(("run/predict", f'{{"data": {opening * depth}', {}) for opening, _, depth in nested),
        *(("queue/join", f'{{"data": ["{"x" * size}"]}}', {}) for size in sizes),
        *(("queue/join", f'{{"data": [{"1," * (size // 2)}1]}}', {}) for size in sizes),
        *(("queue/join", "x" * size, {}) for size in sizes),
        *((path, body, {}) for path in DOORS for body in BODIES.values()),
        *(("run/predict", body, {"Content-Type": "text/plain"}) for body in BODIES.values()),
        *(("run/generate", b'{"data": ["x"]}', {"Origin": origin}) for origin in origins),
        *(("queue/join", b"{}", {"Origin": origin, "Content-Type": "text/plain"}) for origin in origins),
        *(("queue/join", b"{}", {"Host": host}) for host in hosts),
        *(
            ("queue/join", f'{{"data": [null], "fn_index": 0, "session_hash": "{name}"}}', {})
            for name in ("<script>", "../..", "x" * 10**6, "\\u0000", "\\ud800", "None", "a" * 64 + "!")
        ),
    ]


NESTS = (("[", "]"), ('{"a":', "}"), ('[{"data":', "}]"))
RUNS = ("0" * 32, "f" * 32, "../x", "%00", "g" * 32)
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE")
LINES = ("-1", "NaN", "1e30", "9" * 400, "x")


def test_two_hundred_inputs_delay_nobody(door: Door, served: Any) -> None:
    generate = next(event["id"] for event in door.config["dependencies"] if event["api_name"] == "generate")
    asked: list[tuple[str, str, dict[str, Any]]] = [
        *(
            ("POST", API + path, {"content": body, "headers": {**JSON, **headers}})
            for path, body, headers in hostile_posts(generate)
        ),
        *(("GET", f"runs/{run}/events", {"params": {"after": line}}) for run in RUNS for line in LINES),
        *(("POST", f"runs/{run}/leave", {}) for run in RUNS),
        *((method, path, {}) for path in PATHS for method in METHODS),
        *(("GET", "", {"headers": {name: value}}) for name, value in HEADERS.items()),
    ]
    assert len(asked) >= 200

    def ask_all() -> None:
        for method, path, options in asked:
            try:
                found = door.request(method, path, **options)
            except (httpx.LocalProtocolError, httpx.InvalidURL, httpx.WriteError, httpx.RemoteProtocolError):
                continue  # what the client itself does not send, or the server has hung up on
            assert found.status_code < 500, (method, path, str(options)[:200], found.text[:200])
            assert "evil.example" not in found.text

    delays_nobody(f"{served.url}healthz", ask_all)
    assert door.lives()
