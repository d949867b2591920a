"""What a row counts, whose seconds are whose, and what a mask proposal had read."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis.decoding.timed import Stopwatch
from analysis.sweeps import rows as sweep_rows
from analysis.sweeps.jobs import Job, turns_of
from analysis.sweeps.plan import Group, SweepPlan
from analysis.sweeps.rows import decode_chunk
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import Tally, output_ids
from mars.records import ForwardPass, Phase, Proposal, RowPass


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
        _, problem = job.problem(place)
        records = list(DECODERS[decoder](tiny.engine, [tiny.encode(problem.prompt)], job.settings))
        alone = Tally.of(records).rows[0]
        assert (row["tokens"], row["passes"], row["finish_reason"]) == (alone.tokens, alone.passes, alone.finish_reason)
        assert row["text"] == tiny.decode(output_ids(records))
        lengths = {length: n for length, n in enumerate(row["acceptance_lengths"], start=1) if n}
        assert lengths == dict(alone.acceptance_lengths)


def test_depths_are_the_masks_that_a_proposal_has_read(tiny_folder: Path, tiny: Checkpoint) -> None:
    """Each is what a sliding window from the same prefix proposes at the same place, that has read as many masks."""
    job = job_of(tiny_folder, "self_speculative", layouts=("quadratic",), proposals=True, batch_sizes=(2,))
    found = decode_chunk(tiny, job, range(4))
    assert found.proposals
    assert {proposal["depth"] for proposal in found.proposals} == {1, 2, 3}
    shown = []
    for place in range(4):
        number, problem = job.problem(place)
        prompt = [tiny.encode(problem.prompt)]
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


class Clock:
    """A decoder and a stopwatch: each record arrives as many seconds after the one before as it says."""

    def __init__(self, records: Sequence[tuple[float, ForwardPass]]):
        self.seconds = 0.0
        self.records = records

    def run(self, *_: object) -> Iterator[ForwardPass]:
        for seconds, record in self.records:
            self.seconds += seconds
            yield record
        self.seconds += 0.5

    def stopwatch(self, _: object) -> Stopwatch:
        return Stopwatch(None, lambda: self.seconds)


def record(phase: Phase, seconds: float, *rows: tuple[int, int, int]) -> ForwardPass:
    """Rows: number, start, accepted, of three proposals each."""
    proposals = (Proposal(5, 0.5, "clean"), Proposal(6, 0.25, "mask"), Proposal(7, 0.125, "draft"))
    parts = tuple(
        RowPass(row, start, proposals, accepted, None, "stop" if start else None) for row, start, accepted in rows
    )
    return ForwardPass(0, phase, seconds, 1, parts)


def chunk_of(records: list[tuple[float, ForwardPass]], job: Job, tiny: Checkpoint, patch: pytest.MonkeyPatch) -> Any:
    clock = Clock(records)
    patch.setattr(sweep_rows, "run", clock.run)
    patch.setattr(sweep_rows.Stopwatch, "of", clock.stopwatch)
    return decode_chunk(tiny, job, range(2))


def test_seconds_are_shared_by_the_rows_of_a_pass(
    tiny_folder: Path, tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        (1.0, record("prefill", 0.5, (0, 0, 0), (1, 0, 0))),
        (4.0, record("decode", 2.0, (0, 0, 1), (1, 0, 2))),
        (3.0, record("decode", 1.0, (1, 2, 1))),
        (2.0, record("decode", 1.5, (0, 1, 1))),
    ]
    found = chunk_of(records, job_of(tiny_folder, "sliding_window"), tiny, monkeypatch)
    first, second = found.rows
    assert (first["seconds"], second["seconds"]) == (0.5 + 2 + 2 + 0.25, 0.5 + 2 + 3 + 0.25)
    assert (first["model_seconds"], second["model_seconds"]) == (0.25 + 1 + 1.5, 0.25 + 1 + 1)
    assert (first["tokens"], second["tokens"]) == (2, 3)
    assert (first["passes"], second["passes"]) == (2, 2)
    assert (first["acceptance_lengths"], second["acceptance_lengths"]) == ([2], [1, 1])


@pytest.mark.parametrize(("phase", "passes"), [("draft", 1), ("commit", 1), ("denoise", 3)])
def test_passes_that_accept_nothing_count_where_they_fill_a_block(
    phase: Phase, passes: int, tiny_folder: Path, tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [(1.0, record(phase, 1.0, (0, 0, 0), (1, 0, 0)))] * 2
    records.append((1.0, record("decode", 1.0, (0, 1, 2), (1, 1, 2))))
    found = chunk_of(records, job_of(tiny_folder, "sliding_window"), tiny, monkeypatch)
    assert [row["passes"] for row in found.rows] == [passes] * 2
    assert [row["acceptance_lengths"] for row in found.rows] == [[0, 1]] * 2


def test_proposals_past_the_end_and_others_than_those_of_masks_are_left_out(
    tiny_folder: Path, tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tiny_folder, "self_speculative", layouts=("quadratic",), proposals=True)
    records = [
        (1.0, record("verify", 1.0, (0, 0, 1), (1, 0, 1))),
        (1.0, record("verify", 1.0, (0, 1, 1), (1, 1, 2))),
    ]
    found = chunk_of(records, job, tiny, monkeypatch)
    # Behind position 0 both propose 6, and write 5 in the end; what row 0 proposes behind position 1 is past its end.
    expected = [{"number": 0, "depth": 1, "score": 0.25, "agrees": False}] * 2
    assert [{name: proposal[name] for name in expected[0]} for proposal in found.proposals] == expected
