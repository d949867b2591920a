"""What the gate makes of the answers of the app behind it."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from app.browser.bundle import page_script
from app.server.answer import with_prelude
from app.server.rules import API
from mars.decoders import TABLE

Ask = Callable[..., httpx.Response]


@pytest.mark.parametrize("path", ["/", f"{API}/queue/join", "/nothing"])
def test_every_answer_has_the_headers(ask: Ask, path: str) -> None:
    found = ask("GET", path).headers
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'self'" in found["content-security-policy"]


def test_a_page_has_a_policy_of_its_own_and_arrives_whole(ask: Ask) -> None:
    found = ask("GET", "/")
    assert "script-src 'self' 'unsafe-eval' 'sha256-" in found.headers["content-security-policy"]
    assert found.text == "<script>1</script>"
    assert found.headers["content-length"] == str(len(found.content))


@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 418, 422, 500])
def test_what_failed_is_told_in_our_words(ask: Ask, status: int) -> None:
    found = ask("GET", f"{API}/info?status={status}")
    assert found.status_code == status
    assert "secret" not in found.text
    assert found.json()["detail"]


def test_the_sentence_of_an_event_is_passed_on_and_its_silence_replaced(ask: Ask) -> None:
    assert ask("POST", f"{API}/run/predict?error=a+sentence").json()["error"] == "a sentence"
    assert "missing or has the wrong type" in ask("POST", f"{API}/run/predict").json()["error"]


def test_what_a_login_and_the_queue_say_is_passed_on(ask: Ask) -> None:
    assert "secret" in ask("POST", "/login?status=400").text
    assert "secret" in ask("GET", f"{API}/queue/status?status=503").text


def test_an_event_that_failed_without_a_word_gets_a_sentence_and_a_broken_stream_its_end(ask: Ask) -> None:
    found = ask("GET", f"{API}/queue/data").text
    assert "secret" not in found
    assert "null" not in found
    assert "missing or has the wrong type" in found
    assert '{"error":"a sentence"}' in found
    assert len(found) < 2000, "a refusal that quotes a long value is cut short"
    assert [json.loads(line[6:])["output"]["error"][:6] for line in found.split("\n\n")[:3]] == [
        "A fiel",
        "a sent",
        "Value:",
    ]
    assert "missing or has the wrong type" in ask("GET", f"{API}/call/generate/1").text


def test_our_module_runs_before_the_others_and_below_the_base_address() -> None:
    page = with_prelude(
        b'<head><base href="/lens/"><script>words</script><script type="module" src="a"></script>'
        b'<script type="module" src="b"></script></head>'
    ).decode()
    ours = f'<script type="module" src="{page_script()}"></script>'
    assert page.index("<base") < page.index(ours) < page.index('src="a"')
    assert page.count(ours) == 1


def test_the_table_of_the_decoders_is_in_the_page_as_data() -> None:
    page = with_prelude(b'<head><script type="module" src="a"></script></head>').decode()
    table = page.partition('<script type="application/json" id="lens-decoders">')[2]
    assert json.loads(table.partition("</script>")[0])["decoders"].keys() == TABLE.keys()


def test_what_has_no_module_stays_as_it_is() -> None:
    assert with_prelude(b"<p>words</p>") == b"<p>words</p>"
