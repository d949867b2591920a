"""A replay is one file: nothing outside of it is needed, and nothing in it but our own script can run."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.runs import replay
from app.runs.replay import main, page
from app.runs.run import Run, read, to_json
from mars.metrics import output_ids

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "</script><script>document.title='gone'</script><img src=x onerror=\"document.title='gone'\">{title}"


def test_a_replay_names_nothing_outside_of_itself(finished_run: Run) -> None:
    text = page(finished_run)
    assert re.findall(r"""(?:src|href)=["']|@import|url\(|https?://(?!www\.w3\.org/2000/svg)""", text) == []
    assert text.count("<script") == text.count("</script>") == 4


def test_its_policy_allows_its_own_script_only(finished_run: Run) -> None:
    text = page(replace(finished_run, title=HOSTILE, note=HOSTILE))
    assert text.count("<script") == 4
    assert "<img" not in text
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_it_opens_where_one_looked(finished_run: Run) -> None:
    key = finished_run.lanes[-1].key
    assert f'<main class="step" data-lane="{key}" data-number="3">' in page(finished_run, key, 3)
    assert '<main class="step">' in page(finished_run, HOSTILE, 3)


def test_a_long_run_leaves_out_alternatives(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, run = page(finished_run), to_json(finished_run)
    around = len(whole.encode()) - len(run.encode())
    assert around + replay.LARGEST <= 1_000_000
    assert run in whole
    monkeypatch.setattr(replay, "LARGEST", len(run.encode()) - 1)
    found = read(page(finished_run).partition('id="run">')[2].partition("</script>")[0])
    assert len(to_json(found)) < len(run)
    for lane, before in zip(found.lanes, finished_run.lanes, strict=True):
        assert [output_ids([record]) for record in lane.records] == [output_ids([record]) for record in before.records]
        assert lane.written == before.written


def test_the_command_writes_or_says_why_not(
    finished_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "run.json", tmp_path / "run.html"
    source.write_text(to_json(finished_run))
    assert main([str(source), str(target)]) == 0
    same = target.read_text() == page(finished_run)  # megabytes, whose difference pytest would explain for minutes
    assert same
    source.write_text("{}")
    assert main([str(source), str(target)]) == 2
    assert "This file cannot be opened as a run" in capsys.readouterr().err


@pytest.mark.browser
def test_it_opens_from_a_file_with_no_network(chromium: Browser, finished_run: Run, tmp_path: Path) -> None:
    file = tmp_path / "replay.html"
    question = replace(finished_run.question, prompt=HOSTILE)
    file.write_text(page(replace(finished_run, title=HOSTILE, note=HOSTILE, question=question)), encoding="utf-8")
    context = chromium.new_context(offline=True)
    tab, complaints = context.new_page(), list[str]()
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: complaints.append(request.url) if request.url != file.as_uri() else None)
    tab.goto(file.as_uri())
    for lane in finished_run.lanes:
        tab.click(f".step-lane[data-lane={lane.key}]")
        assert tab.locator(".step-passage .lens-token").all_text_contents() == list(lane.written)
        tab.keyboard.press("End")
        assert tab.inner_text(".step-where").startswith("Pass ")
        assert tab.locator(".step-column").count() == len(lane.records[-1].rows[0].proposals)
    assert tab.title() == HOSTILE
    assert tab.locator("img").count() == 0
    assert HOSTILE in str(tab.locator("details p.lens-pre").last.text_content())
    context.close()
    assert complaints == []
