"""Every decoder against mars/reference.py, token by token: decoder × layout × batch × dtype × stop × sampling.

On the shipped tiny checkpoint, and on random answers, which accept and refuse in every pattern.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, PreTrainedModel

from mars import reference
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoders import TABLE
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.decoding.self_speculative import SURE
from mars.records import ForwardPass, RowPass
from mars_tasks import TASKS, sample
from tests.readers import MASK, STOPS, VOCAB, Answers
from tests.scripted import ReadingModel, parts

pytestmark = pytest.mark.usefixtures("one_thread")

FOLDER = Path(__file__).parents[2] / "assets/checkpoints/mars-b8"
ROUNDING = 0.02  # in nats
LAYOUTS = ("linear", "quadratic", "tree", "lookup", "auto")
NAMED: dict[str, dict[str, Any]] = {
    "autoregressive": {},
    "sliding_window": {"threshold": 0.8},
    "sliding_window, one token": {"threshold": None},
    "sliding_window, extra": {"threshold": 0.5, "extra_proposal": True},
    "sliding_window, margin": {"threshold": 0.5, "score": "margin"},
    "sliding_window, entropy": {"threshold": 0.7, "score": "entropy"},
    "sliding_window, calibrated": {"threshold": 0.5, "score": "calibrated"},
    "block_cached, calibrated": {"threshold": 0.4, "score": "calibrated", "cache_block_size": 5},
    "block_cached": {"threshold": 0.5, "cache_block_size": 5},
    **{f"self_speculative, {layout}": {"layout": layout} for layout in LAYOUTS},
    "self_speculative, extra": {"layout": "quadratic", "extra_proposal": True},
    **{f"relaxed, {layout}": {"layout": layout, "threshold": 0.2} for layout in ("linear", "quadratic")},
    **{f"relaxed, {layout}, exact": {"layout": layout, "threshold": None} for layout in ("linear", "tree", "auto")},
    "jacobi": {},
    "prompt_lookup": {"draft_tokens": 10},
    "speculative": {},
}
OTHERS = [info for name, info in TABLE.items() if name not in {case.split(",")[0] for case in NAMED}]
CASES = NAMED | {f"{info.name}, one token": {"threshold": None} for info in OTHERS}
"""Every decoder equals the reference; one that is not named here does so without a threshold, which is AR's text."""
RULED = {
    **{f"relaxed, {layout}": {"layout": layout, "threshold": 0.2} for layout in ("tree", "lookup", "auto")},
    **{info.name: {"threshold": 0.8} for info in OTHERS if info.by_threshold},
}
"""Which have a rule for each token, and no text to be compared with."""
CALIBRATION = ((1.3, -0.4), (0.6, 0.5), (0.9, 0.1))
DRAWN = {"temperature": 0.8, "top_p": 0.9, "seed": 11}


def twin_of(decoder: str, options: DecodingSettings, *, static: bool = False) -> tuple[Callable[..., Any], str]:
    """What mars/reference.py has for a decoder, and what they share: its proposals, passes or text."""
    plain = replace(options, threshold=None)
    if decoder == "sliding_window":
        return partial(reference.mars, settings=options, calibration=CALIBRATION), "proposals"
    if decoder == "block_cached":
        size = options.cache_block_size
        return partial(reference.mars, settings=options, calibration=CALIBRATION, cache_block=size), "proposals"
    if decoder in ("self_speculative", "relaxed") and options.layout in ("linear", "quadratic"):
        # Where every pass has the same width, the linear layout keeps unsure drafts too.
        sure = None if options.layout == "quadratic" else 0.0 if static else SURE
        return partial(reference.exact, settings=options if decoder == "relaxed" else plain, sure=sure), "passes"
    assert options.threshold is None or TABLE[decoder].family != "masks", f"say what {decoder} equals"
    drawn = {name: getattr(options, name) for name in ("max_new_tokens", "temperature", "top_p", "seed")}
    alone = replace(DecodingSettings(threshold=None), **drawn)  # all that AR's text depends on, so it is written once
    return partial(reference.mars, settings=alone), "proposals" if decoder == "autoregressive" else "text"


def compare(found: list[RowPass], expected: list[reference.Pass], shared: str) -> None:
    """The same tokens, out of the same passes, for the same reasons, as far as they are `shared`."""
    accepted = [one.tokens[: one.accepted] for one in expected]
    assert [token for part in found for token in part.accepted_ids] == [token for one in accepted for token in one]
    if shared == "text":
        return
    assert [list(part.accepted_ids) for part in found] == accepted
    traces = [part.trace.reasons if part.trace is not None else () for part in found]
    reasons = [tuple(one.reasons) for one in expected]
    if shared == "proposals":
        assert [[each.token_id for each in part.proposals] for part in found] == [one.tokens for one in expected]
    else:
        ends = [one.accepted for one in expected]
        traces, reasons = ([each[:end] for each, end in zip(both, ends, strict=True)] for both in (traces, reasons))
    assert traces == reasons


# On the tiny checkpoint.


@pytest.fixture(scope="module")
def load() -> Callable[[str], tuple[Checkpoint, PreTrainedModel]]:
    """`load("float32")`: the checkpoint with its engine, and the same weights in transformers alone."""

    @cache
    def load(dtype: str) -> tuple[Checkpoint, PreTrainedModel]:
        plain = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=getattr(torch, dtype)).eval()
        checkpoint = load_checkpoint(FOLDER, dtype=dtype, device="cpu")
        checkpoint.engine.calibration = torch.tensor(CALIBRATION, dtype=torch.float64).T
        return checkpoint, plain

    return load


@pytest.fixture(scope="module")
def prompts(load: Callable[[str], tuple[Checkpoint, PreTrainedModel]]) -> list[list[int]]:
    checkpoint = load("float32")[0]
    return [checkpoint.encode(sample(task, 9_000_000 + seed).prompt) for task in list(TASKS)[:4] for seed in (0, 1)]


@pytest.fixture(scope="module")
def written() -> dict[tuple[str, int], list[reference.Pass]]:
    """The passes of the reference that several cases share, by its arguments and the number of the prompt."""
    return {}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("rows", "sampling", "limit"),
    [
        pytest.param([3], {}, 32, id="alone-greedy-stop"),
        pytest.param(range(8), {}, 12, id="eight-greedy-length"),
        pytest.param(range(8), DRAWN, 32, id="eight-drawn-stop"),
    ],
)
def test_decoders_equal_the_reference(
    case: str, rows: Sequence[int], sampling: dict[str, Any], limit: int, load: Any, prompts: Any, written: Any
) -> None:
    checkpoint, plain = load("float32")
    options = DecodingSettings(**{"max_new_tokens": limit, **sampling, **CASES[case]})
    twin, shared = twin_of(case.split(",")[0], options)
    ids = {"mask": checkpoint.engine.mask_token_id, "stops": checkpoint.engine.stop_token_ids}
    records = decode(case, checkpoint.engine, [prompts[number] for number in rows], options)
    for row, number in list(enumerate(rows))[::3]:  # the others keep them company
        key = (repr(twin), number)
        if key not in written:
            written[key] = list(twin(plain, prompts[number], **ids))
        compare(parts(records, row), written[key], shared)


@pytest.mark.parametrize("case", CASES | RULED)
def test_in_bfloat16_they_differ_by_rounding(case: str, load: Any, prompts: Any) -> None:
    """Each pass is read again in float32: a token may be this much less probable than the rule asks for.

    (The logits of transformers in bfloat16 are an eighth of a nat apart.)
    """
    checkpoint, plain = load("bfloat16")[0], load("float32")[1]
    mask = checkpoint.engine.mask_token_id
    options, info = DecodingSettings(**{"max_new_tokens": 24, **(CASES | RULED)[case]}), TABLE[case.split(",")[0]]
    records = decode(case, checkpoint.engine, prompts, options)
    masked = info.has_one_token_mode
    for row, prompt in list(enumerate(prompts))[::3]:
        taken, text = parts(records, row), list(prompt)
        tokens = [token for part in taken for token in part.accepted_ids]
        whole = [] if masked else reference.predict(plain, [*text, *tokens[:-1]], len(tokens), mask).log_softmax(-1)
        for part in taken:
            if masked:
                scores = reference.predict(plain, [*text, *[mask] * (part.accepted - 1)], part.accepted, mask)
                scores = scores.log_softmax(-1)
            else:  # each token is predicted from the text before it, whatever the pass
                scores = whole[len(text) - len(prompt) :][: part.accepted]
            losses = scores.amax(-1) - scores[range(part.accepted), list(part.accepted_ids)]
            allowed = -math.log(part.threshold or 1) if "relaxed" in case else 0.0
            assert losses.max() <= allowed + ROUNDING
            if masked and part.threshold is not None and options.score == "probability":
                assert all(scores.amax(-1)[1:] >= math.log(part.threshold) - ROUNDING)
            text += part.accepted_ids


def decode(case: str, engine: Any, asked: list[list[int]], options: DecodingSettings) -> list[ForwardPass]:
    decoder = case.split(",")[0]
    if decoder == "speculative":
        engine = Pair(engine, engine)
    return list(DECODERS[decoder](engine, asked, options, Control(options.threshold, options.score, trace=True)))


# On random answers.


class Spoken:
    """The answers of a scripted model in the form of a model of transformers."""

    def __init__(self, model: ReadingModel) -> None:
        self._predict = cache(partial(model.predict, 0, 0))

    def __call__(self, ids: torch.Tensor) -> Any:
        text = tuple(ids[0].tolist())
        real = text.index(MASK) if MASK in text else len(text)
        read = [self._predict(text[:end], max(end - real, 0)) for end in range(1, len(text) + 1)]
        return SimpleNamespace(logits=torch.tensor([read]))


@pytest.mark.parametrize("case", CASES)
@profile(max_examples=10, deadline=None)
@given(
    answers=st.builds(
        Answers,
        seed=st.integers(0, 10**6),
        foresight=st.sampled_from((4, 7, 1, 8)),
        stops=st.sampled_from((0, 0, 1, 8)),
    ),
    asked=st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=5),
    block_size=st.integers(2, 6),
    limit=st.sampled_from((30, 14, 5, 1)),
    threshold=st.sampled_from((0.0, 0.04, 0.15, 0.4, 0.6, 0.85)),
    temperature=st.sampled_from((0.0, 0.0, 0.7)),
    static=st.booleans(),
)
def test_random_answers_equal_the_reference(
    case: str,
    answers: Answers,
    asked: list[list[int]],
    block_size: int,
    limit: int,
    threshold: float,
    temperature: float,
    static: bool,
) -> None:
    drawn = {"block_size": block_size, "max_new_tokens": limit, "temperature": temperature}
    options = DecodingSettings(**{**drawn, **CASES[case]})
    if options.threshold is not None:
        options = replace(options, threshold=threshold)
    model = ReadingModel(
        answers,
        vocab_size=VOCAB,
        mask_token_id=MASK,
        stop_token_ids=frozenset(STOPS),
        static_shapes=static,
        calibration=CALIBRATION,
    )
    twin, shared = twin_of(case.split(",")[0], options, static=static)
    records, spoken = decode(case, model, asked, options), Spoken(model)
    for row, prompt in enumerate(asked):
        compare(parts(records, row), list(twin(spoken, prompt, mask=MASK, stops=STOPS)), shared)
