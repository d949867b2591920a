"""What the word of a decoder means, what each checkpoint can run, and what is refused."""

import pytest

from analysis.decoding.decoder_specs import DecoderSpec, check_runnable, default_decoder_specs, parse_decoder_specs
from mars import decoders
from mars.config import DecodingSettings
from mars.decoders import kinds

BASE = DecodingSettings(block_size=16, threshold=0.5, max_new_tokens=7)
ALL = ("autoregressive", "sliding_window", "block_cached", "self_speculative", "jacobi", "speculative")


@pytest.fixture(autouse=True)
def all_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "TABLE", {name: decoders.TABLE[name] for name in ALL})  # in this order


AR, MASKS = kinds(masks=False), kinds(masks=True)


def parsed(word: str) -> DecoderSpec:
    *_, spec = parse_decoder_specs(word, 0.95)
    return spec


@pytest.mark.parametrize(
    ("word", "label", "changes"),
    [
        ("sliding_window", "sliding_window@0.95", {"threshold": 0.95}),
        ("sliding_window@0.9", "sliding_window@0.9", {"threshold": 0.9}),
        ("sliding_window@none", "sliding_window@none", {"threshold": None}),
        ("sliding_window@0.95/b4", "sliding_window@0.95/b4", {"threshold": 0.95, "block_size": 4}),
        (
            "block_cached/c16/b4",
            "block_cached@0.95/c16/b4",
            {"threshold": 0.95, "cache_block_size": 16, "block_size": 4},
        ),
        ("self_speculative/linear", "self_speculative/linear", {"layout": "linear"}),
        ("self_speculative/b2/auto", "self_speculative/b2/auto", {"layout": "auto", "block_size": 2}),
        ("sliding_window@1.5/entropy", "sliding_window@1.5/entropy", {"threshold": 1.5, "score": "entropy"}),
        ("sliding_window@0.9/extra", "sliding_window@0.9/extra", {"threshold": 0.9, "extra_proposal": True}),
        ("jacobi/k3", "jacobi/k3", {"draft_tokens": 3}),
        ("self_speculative", "self_speculative", {}),
        ("speculative/k2", "speculative/k2", {"draft_tokens": 2}),
    ],
)
def test_words(word: str, label: str, changes: dict[str, object]) -> None:
    spec = parsed(f" {word} ")
    assert (spec.label, dict(spec.changes)) == (label, changes)
    settings = spec.settings(BASE)
    assert {name: getattr(settings, name) for name in changes} == changes
    assert settings.max_new_tokens == 7


@pytest.mark.parametrize(
    "word",
    [
        *("", "beam", "generate/b4", "autoregressive@0.9", "jacobi/b4", "jacobi/k٣", "sliding_window/b4/b8"),
        *("sliding_window@0.9@0.8", "sliding_window/b4@0.9", "self_speculative/round"),
    ],
)
def test_one_sentence_lists_what_is_allowed(word: str) -> None:
    with pytest.raises(ValueError, match="decoders must be some of") as refusal:
        parse_decoder_specs(f"autoregressive,{word}", 0.95)
    sentence = str(refusal.value)
    assert sentence.endswith(f"got {word!r}")
    assert "generate; autoregressive; sliding_window @T (threshold, or none) /bN (block size) /probability|" in sentence
    assert "/auto|linear|quadratic|tree|lookup (layout)" in sentence


def test_the_two_baselines_come_first_and_everybody_once() -> None:
    found = parse_decoder_specs("jacobi,generate,jacobi,sliding_window@0.95,sliding_window", 0.95)
    assert [spec.label for spec in found] == ["generate", "autoregressive", "jacobi", "sliding_window@0.95"]


def test_who_must_write_what_the_baseline_writes() -> None:
    words = "sliding_window,sliding_window@none,block_cached,self_speculative/linear,jacobi,speculative"
    assert [spec.label for spec in parse_decoder_specs(words, 0.9) if spec.lossless] == [
        "autoregressive",
        "sliding_window@none",
        "self_speculative/linear",
        "jacobi",
        "speculative",
    ]


def test_default_is_what_the_checkpoint_can_run() -> None:
    masks = [spec.label for spec in default_decoder_specs(0.9, masks=True)]
    assert [label for label in masks if "speculative" in label] == [
        "self_speculative/auto",
        "self_speculative/linear",
        "self_speculative/quadratic",
        "self_speculative/tree",
        "self_speculative/lookup",
    ]
    assert masks[:2] == ["generate", "autoregressive"]
    assert {"sliding_window@0.9", "block_cached@0.9", "jacobi"} < set(masks)
    plain = default_decoder_specs(0.9, masks=False)
    assert [spec.label for spec in plain] == ["generate", "autoregressive", "jacobi"]
    check_runnable(plain, "ar-sft", AR)
    drafted = default_decoder_specs(0.9, masks=False, draft=True)
    assert [spec.label for spec in drafted[-2:]] == ["jacobi", "speculative"]
    check_runnable(drafted, "ar-sft", AR, draft=True)
    check_runnable(default_decoder_specs(0.9, masks=True), "mars-b8", MASKS)


def test_what_a_checkpoint_cannot_run() -> None:
    with pytest.raises(
        ValueError, match=r"sliding_window@0.9 needs .* another kind than ar-sft, which runs autoregressive, .*jacobi"
    ):
        check_runnable(parse_decoder_specs("sliding_window", 0.9), "ar-sft", AR)
    with pytest.raises(ValueError, match="speculative needs --draft DIR"):
        check_runnable(parse_decoder_specs("speculative", 0.9), "mars-b8", MASKS)
