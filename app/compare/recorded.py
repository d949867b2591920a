"""The recorded run that the stage plays before anything is pressed, as the lines of messages that a live run sends.

The run is one of those that come with the app, real passes of the real model (assets/replays/README.md says how it was
made). It says how many passes each lane needs and not how fast a machine is, so its clock counts passes. No model is
loaded for it, and no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache

from app.compare import stream
from app.compare.difference import Differences
from app.compare.lane import KINDS
from app.runs.run import Run, RunLane
from app.runs.shipped import shipped
from mars import decoders
from mars.metrics import Tally
from mars.records import ForwardPass, Proposal

NAME = "5-first-look"
RECORDED = "static/recorded.txt"
"""Where the page fetches it, relative to the page (app/server/serving.py)."""


@cache
def lines() -> bytes:
    """All lines, the lanes side by side in the order of their clocks; nothing where the run is missing."""
    run = shipped().get(NAME)
    return "".join(map(stream.line, _messages(run))).encode() if run else b""


def _messages(run: Run) -> Iterator[Mapping[str, object]]:
    opening: stream.Recording = {
        "kind": "recorded",
        "prompt": run.question.prompt,
        "lanes": list(map(_card, run.lanes)),
    }
    yield opening
    tellers = [_Teller(lane) for lane in run.lanes]
    first = next((lane.key for lane in run.lanes if lane.decoder == decoders.BASELINE), run.lanes[0].key)
    differences = Differences(first, [lane.key for lane in run.lanes if lane.key != first])
    passes = sorted((told for teller in tellers for told in teller.passes()), key=lambda told: told.message["number"])
    for told in passes:
        yield told.message
        yield from (stream.difference(tokens, first) for tokens in differences.add(told.lane.key, told.pieces))
    for lane in run.lanes:
        yield stream.lane_end(lane.key, lane.finish_reason, "")
    baseline = next(lane for lane in run.lanes if lane.key == first)
    for lane in run.lanes:
        if lane is not baseline and lane.text == baseline.text and decoders.TABLE[lane.decoder].exact:
            yield stream.agreement(lane.key, first, len(lane.written), whole=True)


@dataclass(frozen=True, slots=True)
class _Told:
    """A pass and what it added to the text."""

    lane: RunLane
    message: stream.Pass
    pieces: list[str]


class _Teller:
    """Folds the records of a recorded lane, as `app.compare.lane.Lane` does those of a live one."""

    def __init__(self, lane: RunLane) -> None:
        self.lane = lane
        self.tally = Tally()

    def passes(self) -> Iterator[_Told]:
        """Each pass that wrote something."""
        written = 0
        for record in self.lane.records:
            self.tally.add(record)
            row = record.rows[0]
            if not row.accepted:
                continue
            pieces = list(self.lane.written[written : written + row.accepted])
            written += row.accepted
            yield _Told(self.lane, self._pass(record, pieces), pieces)

    def _pass(self, record: ForwardPass, pieces: list[str]) -> stream.Pass:
        row = record.rows[0]
        message = stream.forward_pass(
            self.lane.key,
            self.tally.passes,
            record,
            tokens=[self._token(piece, proposal) for piece, proposal in zip(pieces, row.proposals, strict=False)],
            ghosts=[self._ghost(proposal) for proposal in row.proposals[row.accepted :]],
            counts=stream.counts(self.tally, shared=False),
        )
        message["seconds"], message["at"] = 1.0, float(self.tally.passes)
        return message

    def _token(self, piece: str, proposal: Proposal) -> stream.Token:
        ends = proposal.token_id in self.lane.stop_ids
        return piece, round(proposal.score, 4), proposal.source, ends, KINDS[proposal.source], []

    def _ghost(self, proposal: Proposal) -> stream.Ghost:
        return self.lane.pieces[proposal.token_id], round(proposal.score, 4), proposal.source


def _card(lane: RunLane) -> stream.Card:
    info = decoders.TABLE[lane.decoder]
    settings = {"checkpoint": lane.checkpoint, "decoder": lane.decoder, **asdict(lane.settings)}
    family = info.family_with(continuation=lane.settings.continuation)
    note = f"{info.title} · recorded"
    return stream.lane(lane.key, lane.title, settings, family=family, note=note, hint=decoders.FAMILIES[family].hint)
