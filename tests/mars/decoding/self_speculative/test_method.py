"""What the records of exact decoding say, what it refuses, and how it settles on a layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding.self_speculative import SelfSpeculative, method_of
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]
Read = Callable[..., list]
LAYOUTS = pytest.mark.parametrize("layout", ["linear", "quadratic"])


@LAYOUTS
def test_records_say_verify_and_no_threshold(run: Run, reply: list[int], layout: str) -> None:
    records = run(ScriptedModel([reply]), [[3, 4]], layout=layout, threshold=0.5)
    assert [record.phase for record in records] == ["prefill", *["verify"] * (len(records) - 1)]
    assert {part.threshold for record in records for part in record.rows} == {None}


def test_sources_say_what_each_proposal_read(
    run: Run, wrong_at: Make, seen: Read, sources: Read, reply: list[int]
) -> None:
    linear = sources(run(ScriptedModel([reply]), [[3]], layout="linear"))
    assert linear[:2] == [["clean", "mask", "mask"], ["clean", "draft", "draft", "mask", "mask"]]
    quadratic = sources(run(wrong_at(3), [[3]], layout="quadratic"))
    passes = seen(run(wrong_at(3), [[3]], layout="quadratic"))
    assert quadratic[0] == ["clean", "mask", "mask"]
    for read, (_, _, accepted) in list(zip(quadratic, passes, strict=True))[1:-1]:
        assert read == ["clean", *["draft"] * (accepted - 1), "mask", "mask"]


@pytest.mark.parametrize(("block_size", "extra"), [(1, False)])
def test_a_block_without_a_draft_is_refused(run: Run, reply: list[int], block_size: int, extra: bool) -> None:
    with pytest.raises(ValueError, match="self_speculative needs block_size >= 2, got 1: a block of 1 has no draft"):
        run(ScriptedModel([reply]), [[3]], block_size=block_size, extra_proposal=extra)
    assert output_ids(run(ScriptedModel([reply]), [[3]], block_size=1, extra_proposal=True)) == reply


def test_a_pass_without_drafts_equals_one_of_roots(run: Run, reply: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def records() -> list[ForwardPass]:
        return run(ScriptedModel([reply, reply[2:]], seconds_per_pass=0.5), [[3, 4], [5, 6, 7]], layout="auto")

    found, judge, trees = records(), SelfSpeculative._judge_none, []

    def as_tree(method: SelfSpeculative, batch: Any, logits_RWV: Any) -> Any:
        if not method.planned:
            return judge(method, batch, logits_RWV)
        trees.append(batch)
        return method._judge_tree(batch, logits_RWV)

    monkeypatch.setattr(SelfSpeculative, "_judge_none", as_tree)
    assert records() == found
    assert trees


def test_methods_with_equal_settings_are_equal(reply: list[int]) -> None:
    model, other = ScriptedModel([reply]), ScriptedModel([reply])
    settings = DecodingSettings(block_size=4)
    assert method_of(model, settings) == method_of(other, settings)
    assert hash(method_of(model, settings)) == hash(method_of(other, settings))
    assert method_of(model, settings) != method_of(model, DecodingSettings(block_size=4, layout="linear"))
