"""The gate around an app that would answer anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.server.gate import Gate
from app.server.rules import API, Rules

HERE = "http://here.example"
SILENT = b'data: {"msg":"process_completed","output":{"error":null},"success":false}\n\n'


async def answer(request: Request) -> Response:
    path = request.url.path
    if path.endswith("/theme.css"):
        raise RuntimeError("/srv/secret")
    if path.endswith("/queue/join"):
        return PlainTextResponse(json.dumps(await request.json()).replace("NaN", "null"))
    if path.endswith("/upload"):
        return JSONResponse({"read": len(await request.body())})
    if path == "/robots.txt":
        return JSONResponse({**request.headers, "query": request.url.query})
    if path == f"{API}/queue/data":
        return StreamingResponse(_events(), media_type="text/event-stream")
    if path == f"{API}/call/generate/1":
        return StreamingResponse(iter([b'event: error\ndata: {"error": null}\n\n']), media_type="text/event-stream")
    if path == f"{API}/run/predict":
        return JSONResponse({"error": request.query_params.get("error")}, status_code=500)
    if path in (f"{API}/info", "/login", "/config", f"{API}/queue/status"):
        status = int(request.query_params["status"])
        return JSONResponse({"detail": "/srv/secret"}, status_code=status)
    if path in ("/", "/lens/"):
        return HTMLResponse("<script>1</script>")
    return PlainTextResponse(path)


async def _events() -> AsyncIterator[bytes]:
    yield SILENT
    yield b'data: {"output":{"error":"a sentence"}}\n\n'
    yield b'data: {"output":{"error":"Value: \\"' + b"x" * 10**6 + b' is not in the list"}}\n\n'
    raise RuntimeError("/srv/secret")


def ask(method: str, path: str, rules: Rules | None = None, **options: Any) -> httpx.Response:
    if method == "POST" and API in path and "content" not in options:
        options["content"] = b"{}"

    async def asked() -> httpx.Response:
        route = Route("/{path:path}", answer, methods=["GET", "HEAD", "POST", "PUT", "OPTIONS"])
        app = Starlette(routes=[route], middleware=[Middleware(Gate, rules=rules or Rules())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            return await client.request(method, path, **options)

    return asyncio.run(asked())


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/config?status=200"),
        ("GET", "/healthz"),
        ("GET", "/assets/index.js"),
        ("POST", "/login?status=200"),
        ("POST", f"{API}/queue/join"),
        ("GET", f"{API}/queue/data?session_hash=x"),
        ("POST", f"{API}/call/generate"),
        ("GET", f"{API}/call/generate/0a1b"),
        ("GET", f"{API}/heartbeat/a1b2c3"),
        ("GET", f"/pictures/{'0a' * 16}?after=7"),
    ],
)
def test_what_the_page_uses_passes(method: str, path: str) -> None:
    assert ask(method, path).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        f"{API}/file=/etc/passwd",
        f"{API}/file=https://example.org/x",
        f"{API}/file/etc/passwd",
        f"{API}/proxy=https://example.org",
        f"{API}/upload",
        f"{API}/upload_progress",
        f"{API}/deep_link",
        f"{API}/component_server",
        f"{API}/process_recording",
        f"{API}/vibe-code/",
        f"{API}/custom_component/a/client/component/x.js",
        f"{API}/dev/reload",
        f"{API}/runs",
        f"{API}/mcp/",
        f"{API}/heartbeat/{'x' * 65}",
        "/pictures",
        "/pictures/",
        f"/pictures/{'0a' * 17}",
        f"/pictures/{'0G' * 16}",
        f"/pictures/{'0a' * 16}/..",
        f"/pictures/../{'0a' * 16}",
        "/monitoring",
        "/monitoring/summary",
        "/docs",
        "//etc/passwd",
        "/../etc/passwd",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_it_does_not_use_is_not_there(method: str, path: str) -> None:
    found = ask(method, path)
    assert found.status_code in (404, 405)
    assert set(found.json()) == {"detail", "error"}
    assert "passwd" not in found.text


def test_uploads_and_mcp_are_there_where_they_are_wanted() -> None:
    assert ask("POST", f"{API}/upload", Rules(uploads=True)).status_code == 200
    assert ask("POST", f"{API}/mcp/", Rules(mcp=True)).status_code == 200


def test_a_method_that_an_address_does_not_take_is_refused() -> None:
    assert ask("PUT", "/config").status_code == 405
    assert ask("POST", f"/pictures/{'0a' * 16}").status_code == 405


@pytest.mark.parametrize("path", ["/", f"{API}/queue/join", "/nothing"])
def test_every_answer_has_the_headers(path: str) -> None:
    found = ask("GET", path).headers
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'self'" in found["content-security-policy"]


def test_a_page_has_a_policy_of_its_own_and_arrives_whole() -> None:
    found = ask("GET", "/")
    assert "script-src 'self' 'unsafe-eval' 'sha256-" in found.headers["content-security-policy"]
    assert found.text == "<script>1</script>"
    assert found.headers["content-length"] == str(len(found.content))


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://here.example:81"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": HERE},
    ],
)
def test_pages_of_other_sites_are_refused_but_may_link_here(sent: dict[str, str]) -> None:
    assert ask("POST", f"{API}/queue/join", headers=sent).status_code == 403
    assert ask("GET", "/config", headers=sent).status_code == 403
    assert ask("GET", "/", headers=sent).status_code == 200


@pytest.mark.parametrize("sent", [{}, {"Origin": HERE}, {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}])
def test_the_page_itself_and_programs_are_heard(sent: dict[str, str]) -> None:
    assert ask("POST", f"{API}/queue/join", headers=sent).status_code == 200


def test_the_address_behind_a_proxy_counts_as_here() -> None:
    rules = Rules(origins={"lens.example"}, root_path="/lens")
    assert ask("POST", f"{API}/queue/join", rules, headers={"Origin": "https://lens.example"}).status_code == 200
    assert ask("GET", "/lens/", rules).status_code == 200
    assert ask("GET", f"/lens{API}/file=/etc/passwd", rules).status_code == 404
    assert ask("GET", "/lensx/", rules).status_code == 404


async def _pieces() -> AsyncIterator[bytes]:
    yield b'{"a": "'
    for _ in range(6):
        yield b"x" * 20
    yield b'"}'


@pytest.mark.parametrize("content", [b'{"a": "' + b"x" * 100 + b'"}', "pieces"])
@pytest.mark.parametrize("path", [f"{API}/queue/join", f"{API}/upload"])
def test_a_body_that_is_too_large_is_refused(content: Any, path: str) -> None:
    body = _pieces() if content == "pieces" else content
    assert ask("POST", path, Rules(largest_body=100, uploads=True), content=body).status_code == 413


def test_a_body_of_the_largest_size_passes() -> None:
    assert ask("POST", f"{API}/queue/join", Rules(largest_body=100), content=b'{"a":"' + b"x" * 92 + b'"}').json()


def test_a_body_in_pieces_arrives_whole() -> None:
    assert ask("POST", f"{API}/queue/join", content=_pieces()).json() == {"a": "x" * 120}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff{}", b'{"a":' + b"[" * 10**5, b'{"a": 1} x', b"7" * 10**4]
)
def test_a_body_that_is_no_object_is_refused(content: bytes) -> None:
    assert ask("POST", f"{API}/queue/join", content=content).status_code == 400


def test_lone_surrogates_are_replaced_and_pairs_are_kept() -> None:
    sent = b'{"a\\uDC00": ["\\ud83d\\ude00", {"b": "x\\ud800"}], "c": NaN}'
    found = ask("POST", f"{API}/queue/join", content=sent)
    assert found.json() == {"a\ufffd": ["😀", {"b": "x\ufffd"}], "c": None}


def test_a_length_that_is_no_number_is_refused() -> None:
    assert ask("POST", f"{API}/queue/join", headers={"Content-Length": "-1"}).status_code == 413


def test_nobody_but_a_known_proxy_says_where_the_page_is_shown() -> None:
    sent = {"X-Forwarded-Host": "lens.example", "X-Forwarded-Proto": "https", "X-Other": "kept"}
    known = ask("GET", "/robots.txt", Rules(origins={"lens.example"}), headers=sent).json()
    assert known["x-forwarded-host"] == "lens.example"
    unknown = ask("GET", "/robots.txt", headers={**sent, "X-Forwarded-Proto": "javascript"}).json()
    assert unknown.keys() & {"x-forwarded-host", "x-forwarded-proto"} == set()
    assert unknown["x-other"] == "kept"


@pytest.mark.parametrize("asked", ["page=x&tab=learn", "tab=learn&%70age=", "tab=learn&page=1&page=2"])
def test_no_address_names_a_page_that_there_is_not(asked: str) -> None:
    assert ask("GET", f"/robots.txt?{asked}").json()["query"] == "tab=learn"


def test_other_questions_are_passed_on_as_they_are() -> None:
    assert ask("GET", "/robots.txt?a=%20b&c&pages=1").json()["query"] == "a=%20b&c&pages=1"


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 418, 422, 500])
def test_what_failed_is_told_in_our_words(status: int) -> None:
    found = ask("GET", f"{API}/info?status={status}")
    assert found.status_code == status
    assert "secret" not in found.text
    assert found.json()["detail"]


def test_the_sentence_of_an_event_is_passed_on_and_its_silence_replaced() -> None:
    assert ask("POST", f"{API}/run/predict?error=a+sentence").json()["error"] == "a sentence"
    assert "lacks something" in ask("POST", f"{API}/run/predict").json()["error"]


def test_what_a_login_and_the_queue_say_is_passed_on() -> None:
    assert "secret" in ask("POST", "/login?status=400").text
    assert "secret" in ask("GET", f"{API}/queue/status?status=503").text


def test_an_error_inside_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    found = ask("GET", "/theme.css")
    assert found.status_code == 500
    assert "secret" not in found.text
    assert "/srv/secret" in caplog.text


def test_an_event_that_failed_without_a_word_gets_a_sentence_and_a_broken_stream_its_end() -> None:
    found = ask("GET", f"{API}/queue/data").text
    assert "secret" not in found
    assert "null" not in found
    assert "lacks something" in found
    assert '{"error":"a sentence"}' in found
    assert len(found) < 2000, "a refusal that quotes a long value is cut short"
    assert [json.loads(line[6:])["output"]["error"][:6] for line in found.split("\n\n")[:3]] == [
        "The re",
        "a sent",
        "Value:",
    ]
    assert "lacks something" in ask("GET", f"{API}/call/generate/1").text


def test_more_requests_at_once_than_allowed_are_turned_away() -> None:
    assert ask("POST", f"{API}/queue/join", Rules(most_at_once=0)).status_code == 503
    assert ask("GET", "/", Rules(most_at_once=0)).status_code == 200


def test_a_websocket_gets_no_answer() -> None:
    async def connect() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            raise AssertionError("nothing is read")

        async def send(message: Any) -> None:
            sent.append(message)

        async def app(*_: Any) -> None:
            raise AssertionError("the app is not asked")

        await Gate(app, Rules())({"type": "websocket", "path": "/"}, receive, send)
        return sent

    assert asyncio.run(connect()) == []
