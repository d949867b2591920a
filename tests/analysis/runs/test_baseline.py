"""Which AR model a model is compared with."""

from typing import Any

import pytest

from analysis.runs.baseline import ArModels, writes_one_token

MODEL = {"parameters": 1000, "examples": 100}


def ar(fabricate: Any, name: str, **fields: Any) -> dict[str, Any]:
    return {**fabricate.model(name, "sft", None, None), **fields}


def models(fabricate: Any, *runs: tuple[dict[str, Any], dict[str, Any]]) -> ArModels:
    return ArModels([fabricate.run(model, **options)[0] for model, options in runs])


def test_most_runs_decide_then_most_conversations(fabricate: Any) -> None:
    few, many, more = (ar(fabricate, name, examples=seen) for name, seen in (("c", 50), ("b", 60), ("a", 70)))
    once = [(model, {}) for model in (few, many, more)]
    assert models(fabricate, *once).baseline_of(MODEL) == more["fingerprint"]
    assert models(fabricate, *once, (few, {"batch_size": 1})).baseline_of(MODEL) == few["fingerprint"]


def test_twice_the_conversations_is_the_compute_match(fabricate: Any) -> None:
    start, double = ar(fabricate, "start", examples=900), ar(fabricate, "double", examples=200)
    both = models(fabricate, (start, {}), (double, {}), (double, {"batch_size": 1}))
    assert both.baseline_of(MODEL) == start["fingerprint"]
    assert both.compute_matched(MODEL) == double["fingerprint"]
    alone = models(fabricate, (double, {}))
    assert (alone.baseline_of(MODEL), alone.compute_matched(MODEL)) == (double["fingerprint"], None)
    assert both.compute_matched({**MODEL, "examples": None}) is None


def test_only_greedy_one_token_ar_runs_count(fabricate: Any) -> None:
    small, sampled, wide = (ar(fabricate, name) for name in ("small", "drawn", "wide"))
    found = models(
        fabricate,
        ({**small, "parameters": 900}, {}),
        (sampled, {"temperature": 1.0}),
        (wide, {"decoder": "sliding_window", "threshold": 0.9}),
        (fabricate.model("mars"), {}),
    )
    assert found.baseline_of(MODEL) is None
    assert found.baseline_of({**MODEL, "parameters": 920}) == small["fingerprint"]
    one_token = models(fabricate, (wide, {"decoder": "sliding_window", "threshold": None}))
    assert one_token.baseline_of(MODEL) == wide["fingerprint"]


def test_a_model_without_record_fills_no_masks(fabricate: Any) -> None:
    base = fabricate.model("base", None, None, None)
    assert models(fabricate, (base, {})).baseline_of(MODEL) == base["fingerprint"]


def test_an_adapter_has_its_commands_ar_adapter(fabricate: Any) -> None:
    base = fabricate.model("base", None, None, None)
    on_base = {"base": base["fingerprint"]}
    sft, mars, alone = ar(fabricate, "sft", **on_base), *({**fabricate.model(n), **on_base} for n in ("mars", "alone"))
    runs = [(base, "b"), (base, "c"), (sft, "a"), (mars, "a"), (alone, "b")]
    found = ArModels([{**fabricate.run(model)[0], "command": command} for model, command in runs])
    assert found.baseline_of(mars) == sft["fingerprint"]
    assert found.baseline_of(alone) == base["fingerprint"]


@pytest.mark.parametrize(
    ("decoder", "threshold", "one"),
    [
        ("autoregressive", 0.9, True),
        ("block_cached", None, True),
        ("block_cached", 1.0, False),
        ("jacobi", None, False),
    ],
)
def test_one_token_mode(decoder: str, threshold: float | None, one: bool) -> None:
    assert writes_one_token(decoder, threshold) is one
