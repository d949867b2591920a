"""What a row counts, and what a mask proposal had read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.decoding.answers import Answer
from analysis.sweeps import jobs as sweep_jobs
from analysis.sweeps.jobs import Job, decode_chunk, turns_of
from analysis.sweeps.plan import Group, SweepPlan
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import Tally, output_ids


def job_of(folder: Path, decoder: str, **more: Any) -> Job:
    given = {"problems": 2, "seed": 7, "tasks": ("logic", "table_lookup"), "device": "cpu", "max_new_tokens": 12}
    drafts = {"drafts": (str(folder),)} if decoder == "speculative" else {}
    group = Group(name="g", checkpoints=(str(folder),), decoders=(decoder,), **{**given, **drafts, **more})
    [[job]] = turns_of(SweepPlan(name="p", groups=(group,)))
    return job


@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window", "block_cached", "jacobi"])
def test_rows_are_those_of_the_decoder_alone(decoder: str, tiny_folder: Path, tiny: Checkpoint) -> None:
    job = job_of(tiny_folder, decoder, batch_sizes=(3,))
    found = decode_chunk(tiny, job, range(4))
    assert found.proposals is None
    assert [(row["task"], row["number"]) for row in found.rows] == [
        *(("logic", 0), ("table_lookup", 0), ("logic", 1), ("table_lookup", 1))
    ]
    for place, row in enumerate(found.rows):
        problem = job.questions.question(place)
        records = list(DECODERS[decoder](tiny.engine, [tiny.encode(problem.turns[0])], job.settings))
        alone = Tally.of(records).rows[0]
        assert (row["tokens"], row["passes"], row["finish_reason"]) == (alone.tokens, alone.passes, alone.finish_reason)
        assert row["text"] == tiny.decode(output_ids(records))
        lengths = {length: n for length, n in enumerate(row["acceptance_lengths"], start=1) if n}
        assert lengths == dict(alone.acceptance_lengths)


def test_unjudged_answers_count_agreeing_tokens(tiny_folder: Path, tiny: Checkpoint) -> None:
    shares = []
    for threshold in (None, 0.001):
        job = job_of(tiny_folder, "sliding_window", thresholds=(threshold,))
        assert "agreeing" not in decode_chunk(tiny, job, range(2)).rows[0]
        rows = decode_chunk(tiny, replace(job, setting={**job.setting, "judged": False}), range(2)).rows
        shares.append(sum(row["agreeing"] for row in rows) / sum(row["tokens"] for row in rows))
    assert shares[0] == 1 > shares[1]


def test_depths_are_the_masks_read(tiny_folder: Path, tiny: Checkpoint) -> None:
    """Each is what a sliding window from the same prefix proposes at the same place, that has read as many masks."""
    job = job_of(tiny_folder, "self_speculative", layouts=("quadratic",), proposals=True, batch_sizes=(2,))
    found = decode_chunk(tiny, job, range(4))
    assert found.proposals
    assert {proposal["depth"] for proposal in found.proposals} == {1, 2, 3}
    shown = []
    for place in range(4):
        problem = job.questions.question(place)
        number = problem.number
        prompt = [tiny.encode(problem.turns[0])]
        strict = DecodingSettings(block_size=4, threshold=1.0, max_new_tokens=12)  # one token a pass, masks read
        windows = {
            record.rows[0].start: record.rows[0].proposals
            for record in DECODERS["sliding_window"](tiny.engine, prompt, strict)
            if record.phase == "decode"
        }
        records = list(DECODERS["self_speculative"](tiny.engine, prompt, job.settings))
        output = output_ids(records)
        for record in records:
            for part in record.rows if record.phase == "verify" else ():
                start = part.start + part.accepted - 1
                for depth in range(1, 4):
                    if start + depth < len(output):
                        proposal = windows[start][depth]
                        agrees = proposal.token_id == output[start + depth]
                        shown.append((problem.task, number, depth, pytest.approx(proposal.score, abs=1e-5), agrees))
    assert [tuple(proposal.values()) for proposal in found.proposals] == shown


def test_proposals_past_the_end_are_left_out(
    tiny_folder: Path, tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tiny_folder, "self_speculative", layouts=("quadratic",), proposals=True)
    cost = {"passes": 1, "seconds": 1.0, "finish_reason": "stop", "acceptance_lengths": (1,)}
    answer = Answer(ids=(5, 6), masks=((1, 1, 0.25, 6), (1, 2, 0.125, 7), (2, 1, 0.5, 6)), **cost)
    monkeypatch.setattr(sweep_jobs, "answers", lambda *_, masks: [(1, answer), (0, answer)])
    found = decode_chunk(tiny, job, range(2))
    expected = [{"depth": 1, "score": 0.25, "agrees": True}, {"depth": 2, "score": 0.125, "agrees": False}] * 2
    assert [{name: proposal[name] for name in expected[0]} for proposal in found.proposals] == expected
