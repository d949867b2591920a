"""What was written before there was one schema still opens, and means the same (tests/golden/README.md)."""

import asyncio
import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gradio as gr

from analysis.runs.schema import check_entry
from app.api import GenerateRequest, generated
from app.models import pairs
from app.runs.run import read
from app.scheduling import Limits
from app.tabs.address import DeepLink
from app.tabs.compare import Tab
from mars.records import from_json, from_object
from mars.records import to_json as record_to_json
from mars.schema import as_json

HERE = Path(__file__).parents[1] / "golden"
EMBEDDED = re.compile(r'<script type="application/json" id="run">(.*?)</script>', re.DOTALL)


def golden(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def same(new: Any, old: Any, within: float = 0.0) -> bool:
    """Everything that was there is there, with the value that it had; floats may differ by this share.

    A setting that is gone, `continuation`, is left out.
    """
    if isinstance(old, dict):
        return isinstance(new, dict) and all(
            name in new and same(new[name], value, within) for name, value in old.items() if name != "continuation"
        )
    if isinstance(old, list):
        return len(new) == len(old) and all(same(one, other, within) for one, other in zip(new, old, strict=True))
    if isinstance(old, float):
        return math.isclose(new, old, rel_tol=within)
    return bool(new == old)


def test_a_saved_run_keeps_everything() -> None:
    run = read((HERE / "run.json").read_bytes())
    assert [lane.settings.score for lane in run.lanes] == ["probability", "probability", "probability", "entropy"]
    assert same(json.loads(as_json(run)), golden("run.json"))


def test_the_run_of_a_replay_is_read() -> None:
    found = EMBEDDED.search((HERE / "replay-data.html").read_text(encoding="utf-8"))
    assert found is not None
    assert same(json.loads(as_json(read(found[1]))), json.loads(found[1]))


def test_an_api_answer_has_all_it_had(make_runner: Callable[..., Any]) -> None:
    old = golden("generate.json")
    given = {"prompt": "Say it", "checkpoint": "mars", "decoder": "sliding_window", "threshold": 0.9}
    given |= {"block_size": None, "max_new_tokens": 16, "seed": 0, "draft": None}
    *_, new = generated(make_runner(), "me", GenerateRequest.of(Limits(), given, {"alternatives": 2}))
    assert set(old) <= set(new)
    assert new["text"] == old["text"]
    for was, now in zip(old["records"], new["records"], strict=True):
        # Another kind of CPU sums in another order.
        assert same(json.loads(json.dumps(now["rows"])), was["rows"], within=1e-4)
        assert same(json.loads(record_to_json(from_object(was))), was)


def test_records_of_the_command_line_are_read() -> None:
    lines = (HERE / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [from_json(line) for line in lines]
    assert same([json.loads(record_to_json(record)) for record in records], list(map(json.loads, lines)))
    assert sum(record.rows[0].accepted for record in records) > 0


def test_an_entry_is_still_an_entry() -> None:
    found = golden("run-store.json")
    check_entry(found["entry"])


async def _tab(runner: Any) -> Tab:
    with gr.Blocks():
        return Tab(runner, [pairs.Pair(ar="ar", mars="mars")])


def test_an_address_sets_what_it_set(make_runner: Callable[..., Any]) -> None:
    tab = asyncio.run(_tab(make_runner()))
    link = DeepLink(tab)
    for known in golden("addresses.json"):
        told, _, *values = link.restore(json.dumps(known["asked"]))
        found = dict(zip(tab.addressable, values[-len(tab.addressable) :], strict=True))
        plain = {name: value["value"] if isinstance(value, dict) else value for name, value in found.items()}
        lanes = [asdict(lane.read(*(plain[f"{lane.key}.{name}"] for name in lane.named))) for lane in tab.row.lanes]
        assert json.loads(told)["refused"] == known["refused"]
        # How many lanes stand side by side, unless an address says it, is the page's choice.
        assert same(
            plain, {name: value for name, value in known["set"].items() if name in known["asked"] or name != "lanes"}
        )
        # Then the layout was "auto" by default, whose passes depend on the clock; texts are the same.
        preset = {"layout": "tree"} if plain["c.preset"] == "MARS exact" else {}
        before = [lane | ({"layout": "lookup"} if lane["layout"] == "auto" else {}) for lane in known["lanes"]]
        assert same(lanes, [*before[:2], before[2] | preset])
