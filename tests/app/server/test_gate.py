"""What the gate lets through, around an app that would answer anything."""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from app.server.gate import API, MOST_UNREAD, Gate, Rules
from tests.app.server.conftest import HERE, Asked

Ask = Callable[..., httpx.Response]
RUN = f"/runs/{'0a' * 16}"
JOIN = f"{API}/queue/join"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/config?status=200"),
        ("GET", "/healthz"),
        ("GET", "/assets/index.js"),
        ("POST", JOIN),
        ("GET", f"{API}/queue/data?session_hash=x"),
        ("POST", f"{API}/call/generate"),
        ("GET", f"{API}/call/generate/0a1b"),
        ("GET", f"{RUN}/events?after=7"),
        ("POST", f"{RUN}/leave"),
    ],
)
def test_what_the_page_uses_passes(ask: Ask, method: str, path: str) -> None:
    assert ask(method, path).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_it_does_not_use_is_absent(ask: Ask, method: str) -> None:
    for path in (
        *(f"{API}/{name}" for name in "file=/etc/passwd file=https://example.org/x file/etc/passwd upload".split()),
        *(f"{API}/{name}" for name in "proxy=https://example.org upload_progress deep_link component_server".split()),
        *(f"{API}/{name}" for name in "process_recording vibe-code/ dev/reload runs mcp/ heartbeat/a1b2".split()),
        *("/runs", RUN, f"/runs/{'0a' * 17}/events", f"/runs/{'0G' * 16}/events", f"{RUN}/events/.."),
        *("/monitoring", "/monitoring/summary", "/docs", "//etc/passwd", "/../etc/passwd"),
        *(f"/{folder}/{name}" for folder in ("assets", "static", "svelte") for name in ("x" * 201, "a%0Ab")),
    ):
        answer = ask(method, path)
        assert answer.status_code in (404, 405), path
        assert set(answer.json()) == {"detail", "error"}
        assert "passwd" not in answer.text


def test_a_wrong_method_is_refused(ask: Ask) -> None:
    assert ask("PUT", "/config").status_code == 405
    assert ask("POST", f"{RUN}/events").status_code == 405


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://[::"},
        {"Origin": "http://here.example:81"},
        {"Origin": "http://localhost:3000", "Host": "localhost:7860"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": HERE},
    ],
)
def test_other_sites_may_link_but_not_call(ask: Ask, sent: dict[str, str]) -> None:
    refused = ask("POST", JOIN, headers=sent)
    assert refused.status_code == 403
    assert "--allowed-host" in refused.json()["detail"]
    assert ask("GET", "/config", headers=sent).status_code == 403
    assert ask("GET", "/", headers=sent).status_code == 200


@pytest.mark.parametrize("known", ["abc-7860.app.github.dev", "*.app.github.dev"])
@pytest.mark.parametrize("host", ["localhost:7860", "abc-7860.app.github.dev"])
def test_one_option_admits_a_forwarded_port(ask: Ask, known: str, host: str) -> None:
    sent = {"Host": host, "Origin": "https://abc-7860.app.github.dev", "Sec-Fetch-Site": "same-origin"}
    rules = {"hosts": {"127.0.0.1"}}
    assert ask("POST", JOIN, Rules(**rules, shown_at={known}), headers=sent).status_code == 200
    assert ask("POST", JOIN, Rules(**rules), headers=sent).status_code in (403, 421)


def test_the_path_of_a_proxy_may_be_kept(ask: Ask) -> None:
    rules = Rules(root_path="/lens")
    assert ask("GET", "/lens/", rules).status_code == 200
    assert ask("GET", f"/lens{API}/file=/etc/passwd", rules).status_code == 404
    assert ask("GET", "/lensx/", rules).status_code == 404


@pytest.mark.parametrize(
    "host",
    "localhost localhost:7860 127.0.0.2:7860 10.1.2.3 [::1]:7860 [2001:db8::1] a.localhost LENS.example.org:80".split(),
)
def test_the_server_answers_to_its_names(ask: Ask, host: str) -> None:
    rules = Rules(hosts={"127.0.0.1"}, shown_at={"lens.example.org"})
    assert ask("GET", "/", rules, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "10.0.0.1.evil.example", "127.0.0.1@evil.example"),
        *("", "a b", "[::", "x" * 300),
    ],
)
def test_another_name_that_leads_here_is_refused(ask: Ask, host: str) -> None:
    answer = ask("GET", "/", Rules(hosts={"127.0.0.1"}), headers={"Host": host})
    assert answer.status_code == 421
    assert "--allowed-host" in answer.json()["detail"]


def test_only_a_known_name_is_forwarded(ask: Ask) -> None:
    sent = {"X-Forwarded-Host": "lens.example", "X-Forwarded-Proto": "https", "X-Other": "kept"}
    known = ask("GET", "/robots.txt", Rules(shown_at={"lens.example"}), headers=sent).json()
    assert known["x-forwarded-host"] == "lens.example"
    unknown = ask("GET", "/robots.txt", headers={**sent, "X-Forwarded-Proto": "javascript"}).json()
    assert unknown.keys() & {"x-forwarded-host", "x-forwarded-proto"} == set()
    assert unknown["x-other"] == "kept"


async def _pieces() -> AsyncIterator[bytes]:
    yield b'{"a": "'
    for _ in range(6):
        yield b"x" * 20
    yield b'"}'


@pytest.mark.parametrize("content", [b'{"a": "' + b"x" * 100 + b'"}', "pieces"])
def test_a_body_that_is_too_large_is_refused(ask: Ask, content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.gate.LARGEST_BODY", 100)
    body = _pieces() if content == "pieces" else content
    answer = ask("POST", JOIN, content=body)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    monkeypatch.setattr("app.server.gate.LARGEST_BODY", 130)
    assert ask("POST", JOIN, content=_pieces()).json() == {"a": "x" * 120}


@pytest.mark.parametrize("sent", [{"Content-Length": "-1"}, {"Content-Length": "2", "Transfer-Encoding": "chunked"}])
def test_a_body_without_one_end_is_refused(ask: Ask, sent: dict[str, str]) -> None:
    assert ask("POST", JOIN, headers=sent).status_code in (400, 413)


def test_a_body_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.gate.BODY_SECONDS", 0.05)
    sent: list[Any] = []

    async def post() -> None:
        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": JOIN, "headers": [], "query_string": b""}
        await Gate(Asked().app, Rules())(scope, receive, send)

    asyncio.run(post())
    assert sent[0]["status"] == 408


NO_OBJECTS = [b"", b"{", b"[]", b"null", b"\xff{}", b'{"a": 1} x', b"7" * 10**4, b'{"a":' + b"[" * 10**5]


@pytest.mark.parametrize("content", [*NO_OBJECTS, b'{"a":' + b"[" * 700 + b"]" * 700 + b"}"])
def test_a_body_that_is_no_object_is_refused(ask: Ask, content: bytes) -> None:
    assert ask("POST", JOIN, content=content).status_code == 400


def test_half_a_surrogate_pair_is_replaced(ask: Ask) -> None:
    sent = b'{"a\\uDC00": ["\\ud83d\\ude00", {"b": "x\\ud800"}]}'
    assert ask("POST", JOIN, content=sent).json() == {"a\ufffd": ["😀", {"b": "x\ufffd"}]}


@pytest.mark.parametrize(
    ("sessions", "status"),
    [
        (["", "x" * 65, "x" * 7_000_000, "../..", "<b>", "ü", "\x00"], 400),
        (["0a1b2c3d4e", "x" * 64, "5f0c-11.b_a", None], 200),
    ],
)
def test_the_name_of_a_session_is_plain(ask: Ask, sessions: list[str | None], status: int) -> None:
    for session in sessions:
        content = json.dumps({"session_hash": session, "fn_index": 0}).encode()
        assert ask("POST", JOIN, content=content).status_code == status, str(session)[:80]


@pytest.mark.parametrize("path", ["queue/join", "run/predict", "cancel"])
def test_only_events_that_exist_are_called(ask: Ask, path: str) -> None:
    for number in ("-1", "999", "NaN", "1e30", "10000000000000000000000", "true", '"0"', "[0]"):
        sent = f'{{"fn_index": {number}}}'.encode()
        assert ask("POST", f"{API}/{path}", Rules(events={0, 1}), content=sent).status_code == 422, number


@pytest.mark.parametrize("content", [b'{"data": [], "fn_index": null}', b'{"data": []}'])
def test_a_call_without_a_name_needs_a_number(ask: Ask, content: bytes) -> None:
    for path in ("run/predict", "run/predict/"):
        assert ask("POST", f"{API}/{path}", content=content).status_code == 422
    assert ask("POST", f"{API}/run/generate", content=content).status_code == 200


FILE = {"path": "http://127.0.0.1/x", "meta": {"_type": "gradio.FileData"}}


FILES = [
    FILE,
    [FILE],
    {"a": [{"b": FILE}]},
    {"_type": "gradio.FileData"},
    {"path": "x", "meta": None, "url": "http://x"},
]


@pytest.mark.parametrize("where", ["data", "event_data", "settings"])
def test_no_body_names_a_file(ask: Ask, where: str) -> None:
    for text in (json.dumps({where: value}) for value in FILES):
        for content in (text, text.replace("meta", "\\u006deta")):
            assert ask("POST", f"{API}/run/predict", content=content.encode()).status_code == 422, content


BULKY = {
    "lists": b'{"data": [' + b"[]," * 2_600_000 + b"[]]}",
    "numbers": b'{"data": [' + b"-1," * 2_600_000 + b"1]}",
    "keys": b'{"data": {' + b",".join(b'"%d": 1' % number for number in range(600_000)) + b"}}",
    "texts": b'{"data": [' + b'"",' * 2_600_000 + b'""]}',
    "escapes": b'{"data": "' + b'\\"[' * 2_600_000 + b'", "fn_index": -1}',
    "one text": b'{"data": "' + b"[" * 8_000_000 + b'", "fn_index": -1}',
}


@pytest.mark.parametrize("kind", BULKY)
def test_a_bulky_body_is_refused_cheaply(ask: Ask, kind: str) -> None:
    began = time.process_time()
    assert ask("POST", JOIN, content=BULKY[kind]).status_code in (413, 422)
    assert time.process_time() - began < 1.0  # 0.2 s on an idle core


def test_unread_answers_are_bounded_by_address() -> None:
    async def flood() -> tuple[list[int], int, int]:
        asked = Asked()

        async def join(number: int, address: str = "10.0.0.1") -> int:
            content = json.dumps({"session_hash": f"s{number}"}).encode()
            return (await asked.send("POST", JOIN, address, content=content)).status_code

        statuses = [await join(number) for number in range(2_000)]
        other = await join(0, "10.0.0.2")
        await asked.send("POST", f"{API}/call/v2/generate", content=b'{"session_hash": "s0"}')  # which is refused
        statuses.append(await join(2_000))
        await asked.send("GET", f"{API}/queue/data?session_hash=s0")
        return statuses, other, await join(2_000)

    statuses, other, after_reading = asyncio.run(flood())
    assert (statuses.count(200), statuses.count(429)) == (MOST_UNREAD, 2_001 - MOST_UNREAD)
    assert other == after_reading == 200


def test_what_was_refused_is_no_unread_answer() -> None:
    async def refused() -> set[int]:
        asked = Asked()
        return {(await asked.send("POST", f"{API}/call/v2/generate")).status_code for _ in range(2 * MOST_UNREAD)}

    assert asyncio.run(refused()) == {422}


def test_refusals_of_gradio_get_our_words(ask: Ask) -> None:
    for status in (400, 403, 404, 405, 413, 418, 422):
        answer = ask("GET", f"{API}/info?status={status}")
        assert answer.status_code == status
        assert "secret" not in answer.text
        assert answer.json()["detail"]
    # but login and queue keep theirs
    assert "secret" in ask("POST", "/login?status=400").text
    assert "secret" in ask("GET", f"{API}/queue/status?status=503").text


@pytest.mark.parametrize("path", ["/theme.css", "/manifest.json"])
def test_an_error_inside_is_logged_not_shown(ask: Ask, path: str, caplog: pytest.LogCaptureFixture) -> None:
    answer = ask("GET", path)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "/srv/secret" in caplog.text


def test_a_websocket_gets_no_answer() -> None:
    async def never(*_: Any) -> Any:
        raise AssertionError("nothing is asked, read or sent")

    asyncio.run(Gate(never, Rules())({"type": "websocket", "path": "/"}, never, never))


@pytest.mark.parametrize("path", ["/", JOIN, "/nothing", "/theme.css"])
def test_every_answer_has_the_headers(ask: Ask, path: str) -> None:
    headers = ask("GET", path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'self'" in headers["content-security-policy"]


def hash_of(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def test_only_scripts_sent_with_the_page_run(ask: Ask) -> None:
    answer = ask("GET", "/")
    policy = {name: rest for name, *rest in map(str.split, answer.headers["content-security-policy"].split("; "))}
    assert policy["script-src"][:2] == ["'self'", "'unsafe-eval'"]
    assert sorted(policy["script-src"][2:]) == sorted([hash_of("1"), hash_of("\ntwo()\n")])
    assert policy["default-src"] == ["'none'"]
    assert policy["connect-src"] == policy["form-action"] == policy["base-uri"] == ["'self'"]
    assert not any(word.startswith(("http", "*")) for words in policy.values() for word in words)
    assert answer.headers["content-length"] == str(len(answer.content))
