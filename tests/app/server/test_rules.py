"""What the gate lets through, around an app that would answer anything."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from app.server.rules import API, Rules

Ask = Callable[..., httpx.Response]
HERE = "http://here.example"


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
        ("GET", f"/runs/{'0a' * 16}/events?after=7"),
    ],
)
def test_what_the_page_uses_passes(ask: Ask, method: str, path: str) -> None:
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
        "/runs",
        "/runs/",
        f"/runs/{'0a' * 16}",
        f"/runs/{'0a' * 17}/events",
        f"/runs/{'0G' * 16}/events",
        f"/runs/{'0a' * 16}/events/..",
        f"/runs/../{'0a' * 16}/events",
        "/monitoring",
        "/monitoring/summary",
        "/docs",
        "//etc/passwd",
        "/../etc/passwd",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_it_does_not_use_is_not_there(ask: Ask, method: str, path: str) -> None:
    found = ask(method, path)
    assert found.status_code in (404, 405)
    assert set(found.json()) == {"detail", "error"}
    assert "passwd" not in found.text


def test_uploads_and_mcp_are_there_where_they_are_wanted(ask: Ask) -> None:
    assert ask("POST", f"{API}/upload", Rules(uploads=True)).status_code == 200
    assert ask("POST", f"{API}/mcp/", Rules(mcp=True)).status_code == 200


def test_a_method_that_an_address_does_not_take_is_refused(ask: Ask) -> None:
    assert ask("PUT", "/config").status_code == 405
    assert ask("POST", f"/runs/{'0a' * 16}/events").status_code == 405


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
def test_pages_of_other_sites_are_refused_but_may_link_here(ask: Ask, sent: dict[str, str]) -> None:
    assert ask("POST", f"{API}/queue/join", headers=sent).status_code == 403
    assert ask("GET", "/config", headers=sent).status_code == 403
    assert ask("GET", "/", headers=sent).status_code == 200


@pytest.mark.parametrize("sent", [{}, {"Origin": HERE}, {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}])
def test_the_page_itself_and_programs_are_heard(ask: Ask, sent: dict[str, str]) -> None:
    assert ask("POST", f"{API}/queue/join", headers=sent).status_code == 200


def test_the_address_behind_a_proxy_counts_as_here(ask: Ask) -> None:
    rules = Rules(origins={"lens.example"}, root_path="/lens")
    assert ask("POST", f"{API}/queue/join", rules, headers={"Origin": "https://lens.example"}).status_code == 200
    assert ask("GET", "/lens/", rules).status_code == 200
    assert ask("GET", f"/lens{API}/file=/etc/passwd", rules).status_code == 404
    assert ask("GET", "/lensx/", rules).status_code == 404


def test_a_length_that_is_no_number_is_refused(ask: Ask) -> None:
    assert ask("POST", f"{API}/queue/join", headers={"Content-Length": "-1"}).status_code == 413


def test_more_requests_at_once_than_allowed_are_turned_away(ask: Ask) -> None:
    assert ask("POST", f"{API}/queue/join", Rules(most_at_once=0)).status_code == 503
    assert ask("GET", "/", Rules(most_at_once=0)).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:7860",
        "127.0.0.1:7860",
        "127.0.0.2",
        "[::1]:7860",
        "lens.localhost",
        "LENS.example.org:80",
    ],
)
def test_the_server_answers_to_its_own_names(ask: Ask, host: str) -> None:
    rules = Rules(hosts={"127.0.0.1", "lens.example.org"})
    assert ask("GET", "/", rules, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "10.0.0.1", "", "a b", "127.0.0.1@evil.example", "x" * 300]
)
def test_another_name_that_leads_here_is_refused(ask: Ask, host: str) -> None:
    found = ask("GET", "/", Rules(hosts={"127.0.0.1"}), headers={"Host": host})
    assert found.status_code == 421
    assert "--allowed-host" in found.json()["detail"]


def test_bound_to_every_address_each_address_is_its_own_and_no_further_name(ask: Ask) -> None:
    rules = Rules(hosts={"0.0.0.0"}, any_number=True, origins={"lens.hf.space"})
    for host in ("10.1.2.3:7860", "[2001:db8::1]", "lens.hf.space"):
        assert ask("GET", "/", rules, headers={"Host": host}).status_code == 200
    assert ask("GET", "/", rules, headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("name", ["x" * 201, "x" * 300 + ".js", "%C3%BC" * 100, "a%0Ab"])
@pytest.mark.parametrize("folder", ["assets", "static", "svelte"])
def test_names_that_no_file_has_are_not_looked_up(ask: Ask, folder: str, name: str) -> None:
    assert ask("GET", f"/{folder}/{name}").status_code == 404
