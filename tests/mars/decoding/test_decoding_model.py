"""Decoders on a tiny random Qwen2 in fp32: fast paths against slow twins, token by token."""

from __future__ import annotations

from copy import copy
from importlib import import_module

import pytest
import torch
from transformers import PreTrainedModel

from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.engine import Engine, ModelEngine
from mars.metrics import Tally, output_ids
from mars.records import ForwardPass

PROMPTS = [[9, 10, 11, 12, 13], [14], [15] * 40, [20, 30, 40, 50, 60, 70, 80]]
EIGHT = [*PROMPTS, [21, 22], [23, 24, 25], [26] * 17, [27, 28] * 11]
SAMPLED = {"temperature": 0.8, "top_p": 0.9, "seed": 11}
LAYOUTS = ("linear", "quadratic", "auto", "tree", "lookup")
SETTINGS = [
    {"threshold": None},
    {"threshold": 0.0, "block_size": 3},
    {"threshold": 0.3},
    {"threshold": 0.3, "extra_proposal": True, "block_size": 2},
    {"threshold": 0.9, "block_size": 16},
    {"threshold": 0.2, "score": "margin"},
    {"threshold": 3.0, "score": "entropy"},
]


@pytest.fixture
def sure_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights are sure of nothing: without this, the linear layout would have no drafts."""
    monkeypatch.setattr(import_module("mars.decoding.self_speculative"), "SURE", 0.0)


def run(
    engine: ModelEngine, prompts: list[list[int]], decoder: str = "sliding_window", **options: object
) -> list[ForwardPass]:
    settings = DecodingSettings(**{"max_new_tokens": 48, **options})
    return list(DECODERS[decoder](paired(engine, decoder), prompts, settings))


def paired(engine: ModelEngine, decoder: str) -> Engine:
    """The engine that this decoder needs: one that is its own draft, or whose masks are those of block diffusion."""
    if decoder == "block_diffusion":
        engine = copy(engine)
        engine.diffusion_mask_id, engine.mask_token_id = engine.mask_token_id, None
    return Pair(engine, engine) if decoder == "speculative" else engine


def engine_without_end(model: PreTrainedModel) -> ModelEngine:
    """Random weights hardly write for long: nothing stops this one."""
    return ModelEngine(model, stop_token_ids=frozenset(), mask_token_id=3)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_cached_batch_equals_uncached_and_alone(tiny_model: PreTrainedModel, options: dict[str, object]) -> None:
    engine = engine_without_end(tiny_model)
    batch = run(engine, PROMPTS, **options)
    recomputed = run(engine, PROMPTS, use_cache=False, **options)
    assert {record.phase for record in recomputed} == {"decode"}
    for row, prompt in enumerate(PROMPTS):
        alone = run(engine, [prompt], **options)
        assert output_ids(batch, row) == output_ids(recomputed, row) == output_ids(alone)
        lengths = [Tally.of(records).rows[index].acceptance_lengths for records, index in ((batch, row), (alone, 0))]
        assert lengths[0] == lengths[1]


@pytest.mark.usefixtures("sure_of_everything")
@pytest.mark.parametrize(
    ("decoder", "layout"), [*((decoder, "quadratic") for decoder in DECODERS), ("self_speculative", "linear")]
)
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_eight_rows_of_all_lengths_write_what_they_write_alone(
    tiny_model: PreTrainedModel, decoder: str, layout: str, sampling: dict[str, object]
) -> None:
    engine = engine_without_end(tiny_model)
    options = {"max_new_tokens": 24, "threshold": 0.3, "block_size": 4, "layout": layout, **sampling}
    together = run(engine, EIGHT, decoder, **options)
    recomputed = run(engine, EIGHT, decoder, use_cache=False, **options)
    for row, prompt in enumerate(EIGHT):
        alone = output_ids(run(engine, [prompt], decoder, **options))
        assert output_ids(together, row) == alone == output_ids(recomputed, row)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_run_that_is_cancelled_leaves_the_engine_as_it_was(tiny_model: PreTrainedModel, decoder: str) -> None:
    engine = engine_without_end(tiny_model)
    expected = run(engine, PROMPTS, decoder, max_new_tokens=16)
    control = Control(0.3)
    settings = DecodingSettings(max_new_tokens=16)
    stream = DECODERS[decoder](paired(engine, decoder), PROMPTS, settings, control)
    next(stream), next(stream)
    control.stop()
    assert list(stream) == []
    again = run(engine, PROMPTS, decoder, max_new_tokens=16)
    for row in range(len(PROMPTS)):
        assert output_ids(again, row) == output_ids(expected, row)


@pytest.mark.usefixtures("sure_of_everything")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_exact_decoding_writes_what_autoregressive_writes(
    tiny_model: PreTrainedModel, layout: str, sampling: dict[str, object], use_cache: bool
) -> None:
    engine = engine_without_end(tiny_model)
    sampling = {**sampling, "max_new_tokens": 48 if use_cache else 24}  # all is read anew for each
    plain = run(engine, PROMPTS, "autoregressive", **sampling)
    for block_size in (2, 5):
        exact = run(
            engine, PROMPTS, "self_speculative", layout=layout, block_size=block_size, use_cache=use_cache, **sampling
        )
        for row in range(len(PROMPTS)):
            assert output_ids(exact, row) == output_ids(plain, row)
        read = {proposal.source for record in exact for part in record.rows for proposal in part.proposals}
        assert "draft" in read or layout != "linear"


@pytest.mark.usefixtures("sure_of_everything")
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_exact_passes_are_the_same_with_and_without_cache(tiny_model: PreTrainedModel, layout: str) -> None:
    """Drafts too: the masks behind each prefix have read the same."""
    engine = engine_without_end(tiny_model)
    cached, recomputed = (
        run(engine, PROMPTS, "self_speculative", layout=layout, block_size=4, use_cache=use_cache)
        for use_cache in (True, False)
    )
    for row in range(len(PROMPTS)):
        one, other = (
            [
                (part.start, part.accepted, [proposal.token_id for proposal in part.proposals])
                for record in records
                if record.phase == "verify"
                for part in record.rows
                if part.row == row
            ]
            for records in (cached, recomputed)
        )
        assert one == other


@pytest.mark.usefixtures("sure_of_everything")
def test_a_tree_proposes_what_the_square_does(tiny_model: PreTrainedModel) -> None:
    """Behind the same text, as far as its shorter groups go; and alone what it does in company."""
    engine = engine_without_end(tiny_model)

    def groups(records: list[ForwardPass], row: int) -> dict[int, list[tuple[int, float]]]:
        """What the masks propose, by the number of tokens written before."""
        return {
            part.start + part.accepted: [(p.token_id, p.score) for p in part.proposals if p.source == "mask"]
            for record in records
            for part in record.rows
            if part.row == row and part.proposals
        }

    square = run(engine, PROMPTS, "self_speculative", layout="quadratic", block_size=5)
    together = run(engine, PROMPTS, "self_speculative", layout="tree", block_size=5)
    lengths = set()
    for row, prompt in enumerate(PROMPTS):
        alone = run(engine, [prompt], "self_speculative", layout="tree", block_size=5)
        for found in (groups(together, row), groups(alone, 0)):
            whole = groups(square, row)
            assert set(found) & set(whole)
            for start in set(found) & set(whole):
                lengths.add(len(found[start]))
                for one, other in zip(found[start], whole[start], strict=False):
                    assert one == pytest.approx(other, abs=1e-5)
    assert len(lengths) > 1, "no group was shorter than another"


def test_the_settings_above_accept_and_reject(tiny_model: PreTrainedModel) -> None:
    """Otherwise the comparison above would compare one-token mode with itself."""
    mixed = [options for options in SETTINGS if options["threshold"] not in (None, 0.0, 0.9)]
    for options in mixed:
        lengths = Tally.of(run(engine_without_end(tiny_model), PROMPTS, **options)).acceptance_lengths
        assert lengths[1] > 3, options
        assert sum(count for length, count in lengths.items() if length > 1) > 3, options


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window"])
def test_one_token_mode_equals_generate(tiny: Checkpoint, tiny_model: PreTrainedModel, decoder: str) -> None:
    records = run(tiny.engine, PROMPTS, decoder, threshold=None)
    for row, prompt in enumerate(PROMPTS):
        reference = tiny_model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=48,
            eos_token_id=sorted(tiny.engine.stop_token_ids),
            suppress_tokens=[tiny.engine.mask_token_id],
        )
        assert output_ids(records, row) == reference[0, len(prompt) :].tolist()


def test_the_first_proposal_does_not_depend_on_the_masks(tiny_model: PreTrainedModel) -> None:
    engine = engine_without_end(tiny_model)
    first = [run(engine, PROMPTS, block_size=size, max_new_tokens=32)[1].rows for size in (1, 4, 32)]
    for row in range(len(PROMPTS)):
        proposals = [rows[row].proposals[0] for rows in first]
        assert len({proposal.token_id for proposal in proposals}) == 1
        assert [proposal.score for proposal in proposals] == pytest.approx([proposals[0].score] * 3, abs=1e-5)


def test_the_extra_proposal_leaves_the_others_as_they_are(tiny_model: PreTrainedModel) -> None:
    engine = engine_without_end(tiny_model)
    plain, extra = (run(engine, [PROMPTS[0]], extra_proposal=extra)[1].rows[0] for extra in (False, True))
    assert len(extra.proposals) == len(plain.proposals) + 1
    for one, other in zip(plain.proposals, extra.proposals, strict=False):
        assert one.token_id == other.token_id
        assert one.score == pytest.approx(other.score, abs=1e-6)


def test_scores_and_alternatives_are_those_of_a_plain_forward_pass(tiny_model: PreTrainedModel) -> None:
    prompt, masks = PROMPTS[0], [3] * 3
    with torch.no_grad():
        logits = tiny_model(torch.tensor([prompt + masks])).logits[0, -4:]
    logits[:, 3] = -torch.inf
    expected = logits.softmax(-1).topk(5)
    row = run(engine_without_end(tiny_model), [prompt], block_size=4, alternatives=5)[1].rows[0]
    for column, proposal in enumerate(row.proposals):
        assert [token for token, _ in proposal.alternatives] == expected.indices[column].tolist()
        assert [chance for _, chance in proposal.alternatives] == pytest.approx(
            expected.values[column].tolist(), abs=1e-5
        )
        assert proposal.score == pytest.approx(proposal.alternatives[0][1], abs=1e-6)


def test_two_runs_on_one_engine_do_not_disturb_each_other(tiny_model: PreTrainedModel) -> None:
    engine = engine_without_end(tiny_model)
    streams = [DECODERS["sliding_window"](engine, [prompt], DecodingSettings(max_new_tokens=24)) for prompt in PROMPTS]
    mixed: list[list[ForwardPass]] = [[] for _ in PROMPTS]
    for _ in range(30):
        for records, stream in zip(mixed, streams, strict=True):
            records.extend(record for record in [next(stream, None)] if record is not None)
    for prompt, records in zip(PROMPTS, mixed, strict=True):
        assert output_ids(records) == output_ids(run(engine, [prompt], max_new_tokens=24))


def test_records_leave_gradients_and_inference_mode_alone(tiny_model: PreTrainedModel) -> None:
    stream = DECODERS["sliding_window"](engine_without_end(tiny_model), [PROMPTS[0]], DecodingSettings())
    next(stream)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_seconds_are_positive_and_below_the_wall_clock(tiny_model: PreTrainedModel) -> None:
    assert all(0 < record.seconds < 5 for record in run(engine_without_end(tiny_model), PROMPTS))


def test_bfloat16_follows_the_contract(tiny_folder: object) -> None:
    engine = load_checkpoint(tiny_folder, dtype="bfloat16", device="cpu").engine
    records = run(engine, PROMPTS, threshold=0.3)
    assert all(part.accepted >= 1 for record in records[1:] for part in record.rows)
    assert {part.finish_reason for record in records for part in record.rows} >= {"length"}
