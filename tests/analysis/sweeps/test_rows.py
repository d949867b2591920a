"""What a row counts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.sweeps.jobs import Job, decode_chunk, turns_of
from analysis.sweeps.plan import Group, SweepPlan
from mars.checkpoint import Checkpoint
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
    assert [(row["task"], row["number"]) for row in found] == [
        *(("logic", 0), ("table_lookup", 0), ("logic", 1), ("table_lookup", 1))
    ]
    for place, row in enumerate(found):
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
        assert "agreeing" not in decode_chunk(tiny, job, range(2))[0]
        rows = decode_chunk(tiny, replace(job, setting={**job.setting, "judged": False}), range(2))
        shares.append(sum(row["agreeing"] for row in rows) / sum(row["tokens"] for row in rows))
    assert shares[0] == 1 > shares[1]
