"""Recorded runs as the lines of messages that a live run sends, on a clock that counts passes; no model is needed."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from app.compare import stream
from app.compare.comparison import Differences, parted
from app.compare.lane import baseline_of
from app.runs.run import Run, RunLane, shipped
from mars import decoders
from mars.decoders import TABLE, FamilyName
from mars.metrics import COUNTED, Tally

NAME = "5-first-look"


@cache
def first_run() -> bytes:
    """The lines of the run that the page of the app plays before anything else; nothing where it is missing."""
    run = shipped().get(NAME)
    return played(run).encode() if run else b""


def played(run: Run) -> str:
    """The lines of a run that a page follows from a file, as it would follow a live one."""
    lanes, prompt = [*_cards(run)], run.question.prompt
    first = stream.Opening(kind="open", id=run.id, lanes=lanes, recorded=True, prompt=prompt)
    judged = ((lane.key, lane.right) for lane in run.lanes if lane.right is not None)
    verdicts = [stream.Correctness(kind="verdict", lane=key, right=right) for key, right in judged]
    names = ", ".join(dict.fromkeys(lane.checkpoint for lane in run.lanes))
    last = stream.state("done", f"Recorded on {run.date[:10]} with {names}.")
    return stream.lines([first, *_messages(run), *verdicts, last])


def _messages(run: Run) -> Iterator[Mapping[str, object]]:
    """What follows the first message: passes, the lanes side by side in the order of their clocks, and ends."""
    baseline = baseline_of(run.lanes)
    others = [lane for lane in run.lanes if lane is not baseline]
    differences = Differences(baseline.key, [lane.key for lane in others])
    passes = [found for lane in run.lanes for found in _passes(lane)]
    for message, texts in sorted(passes, key=lambda found: found[0]["number"]):
        yield message
        yield from parted(differences.add(message["lane"], texts), baseline)
    for lane in run.lanes:
        yield stream.End(kind="end", lane=lane.key, reason=lane.finish_reason, tail="")
        if lane.finish_reason == "stop":
            yield from parted(differences.add(lane.key, ends=True), baseline)
    alike = differences.same(lane.key for lane in run.lanes if lane.finish_reason == "stop")
    yield from (stream.Same(kind="same", lanes=[baseline.key, other]) for other in alike)
    for lane in others:
        info = decoders.TABLE.get(lane.decoder)
        if lane.text == baseline.text and info is not None and info.exact:
            yield stream.agreement(lane.key, baseline.key, len(lane.written), whole=lane.key in alike)


def _passes(lane: RunLane) -> Iterator[tuple[stream.Pass, list[str]]]:
    """The message of each pass that wrote something, on a clock that counts passes, with the text of its tokens."""
    tally = Tally()
    for record in lane.records:
        written = tally.tokens
        tally.add(record)
        texts = list(lane.written[written : tally.tokens])
        if texts:
            message = stream.forward_pass(
                lane.key,
                tally.passes,
                record,
                texts=texts,
                pieces=lane.pieces,
                stop_ids=lane.stop_ids,
                counts=stream.counts(tally, shared=False),
            )
            message["seconds"], message["at"] = 1.0, float(tally.passes)
            yield message, texts


def _cards(run: Run) -> Iterator[stream.Card]:
    for lane in run.lanes:
        info = decoders.TABLE.get(lane.decoder)  # an old run may name one that is gone
        title, family = (info.title, info.family) if info else (lane.decoder, "masks")
        settings = {"checkpoint": lane.checkpoint, "decoder": lane.decoder, **asdict(lane.settings)}
        note, prefix = f"{title}{_thresholds(lane)} · recorded", run.question.answer_prefix
        found = card(lane.key, lane.title, settings, family=family, note=note, answer_prefix=prefix)
        found["earlier"] = [(turn.prompt, turn.answer) for turn in lane.earlier]
        yield found


def _thresholds(lane: RunLane) -> str:
    """The threshold of its passes, or that it moved; nothing where none ever decided."""
    found = {record.rows[0].threshold for record in lane.records if record.phase in COUNTED}
    return "" if found <= {None} else f", τ {found.pop():g}" if len(found) == 1 else ", τ moved"


def card(
    key: str, title: str, settings: Mapping[str, Any], *, family: FamilyName, note: str, answer_prefix: str = ""
) -> stream.Card:
    """The card of a lane that writes by these settings, its checkpoint and decoder among them."""
    return stream.Card(
        key=key,
        family=family,
        title=title,
        checkpoint=settings["checkpoint"],
        decoder=settings["decoder"],
        score=settings["score"],
        settings=dict(settings),
        note=note,
        hint=TABLE[settings["decoder"]].line if settings["decoder"] in TABLE else "",
        problem=None,
        inactive=None,
        earlier=[],
        answer_prefix=answer_prefix,
    )
