"""What a live run tells its page, made by the code that makes it for real: cards of lanes, and messages of passes.

    python tests/standins.py

writes those of the tests that run without a browser, as JSON.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from app.compare import stream
from app.compare.board import FEWEST, Plan, ProblemDone, opening
from app.compare.board import Message as BoardMessage
from app.compare.lane import Lane, keep
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import LaneRequest
from app.runs.run import read
from mars.config import DecodingSettings, ScoreName
from mars.decoding.trace import reasons_of
from mars.records import FinishReason, ForwardPass, Phase, Proposal, RowPass, Source, Span, Trace
from mars.schema import as_json, checked

Message = dict[str, Any]
LANES = {
    "ar": ("AR", "autoregressive"),
    "masks": ("MARS", "sliding_window"),
    "exact": ("MARS exact", "self_speculative"),
    "blocks": ("Block diffusion", "block_diffusion"),
    "guesses": ("Jacobi", "jacobi"),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A proposal with its text; it is its own only alternative worth a name."""

    piece: str
    score: float = 0.99
    source: Source = "clean"
    ends: bool = False


class Vocabulary:
    """A checkpoint that is nothing but the texts of its tokens."""

    name = "vocabulary"

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.pieces = [token.piece for token in tokens] + ["other"]
        self.tokenizer = self.pieces
        stops = frozenset(number for number, token in enumerate(tokens) if token.ends)
        self.engine = SimpleNamespace(stop_token_ids=stops)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[number] for number in ids)


def card(
    key: str,
    family: str,
    *,
    title: str | None = None,
    problem: str | None = None,
    texts: Mapping[str, str] | None = None,
    **choice: Any,
) -> Message:
    """How a lane introduces itself; `choice` are its settings, `texts` replace sentences that need a loaded model."""
    usual, decoder = LANES[family]
    chosen = LaneChoice(**{"checkpoint": f"small-{family}", "decoder": decoder, **choice})
    message = LaneRequest(key=key, title=title or usual, choice=chosen, problem=problem).card()
    if unknown := set(texts or {}) - {"note", "inactive"}:
        raise ValueError(f"texts must be among note and inactive, got {unknown}")
    return {**message, **(texts or {})}


def traced(row: RowPass, score: ScoreName, stops: frozenset[int]) -> RowPass:
    """A row of a pass that read a token of the text and masks behind it, and kept no draft."""
    count = len(row.proposals)
    spans = Span("clean", (10,), None), Span("mask", (19,) * (count - 1), 0)
    reasons = reasons_of(row.proposals, row.accepted, row.threshold, score=score, kept=0, stop_ids=stops)
    trace = Trace(row.start, spans[:count] or spans[:1], tuple(range(count)), tuple(reasons))
    return replace(row, trace=trace)


def passed(
    key: str,
    number: int,
    tokens: Sequence[Token],
    ghosts: Sequence[Token] = (),
    *,
    decoder: str = "sliding_window",
    threshold: float | None = None,
    phase: Phase = "decode",
    reason: FinishReason | None = None,
    score: ScoreName = "probability",
) -> Message:
    """The message of pass `number` of a lane whose passes were all alike, of half a second each."""
    shown = [*tokens, *ghosts]
    checkpoint: Any = Vocabulary(shown)
    other = len(shown)
    proposals = tuple(
        Proposal(place, token.score, token.source, ((place, min(1.0, token.score)), (other, 0.0004)))
        for place, token in enumerate(shown)
    )
    settings = DecodingSettings(score=score)
    lane = Lane(key, key, decoder, checkpoint, settings=settings)
    message: Message = {}
    for index in range(number):
        ending = reason if index == number - 1 else None
        row = RowPass(0, index * len(tokens), proposals, len(tokens), threshold, ending)
        row = traced(row, settings.score, checkpoint.engine.stop_token_ids)
        message, _ = lane.add(ForwardPass(index, phase, 0.5, len(shown), (row,)))
    return message


def cases() -> dict[str, Any]:
    """Those of tests/browser/compare.test.mjs: cards and passes by what they are for, and a score board."""
    clean, mask, draft = Token("x", 0.97), Token("x", 0.97, "mask"), Token("x", 0.97, "draft")
    ghosts = [Token("no", 0.5, "mask"), Token("nor this", 0.99, "mask")]
    refusing = [replace(ghosts[0], source="draft"), ghosts[1]]
    unsure = [Token("no", 2.0, "mask"), Token("nor this", 0.1, "mask")]
    verify: dict[str, Any] = {"phase": "verify", "decoder": "self_speculative"}
    found: dict[str, Any] = {
        "lanes": {
            "masks": card("b", "masks"),
            "entropy": card("b", "masks", score="entropy", follows=False, threshold=0.3),
            "exact": card("b", "exact"),
        },
        "passes": {
            "threshold": passed("b", 1, [clean], ghosts, threshold=0.9),
            "entropy": passed("b", 1, [clean], unsure, threshold=0.3, score="entropy"),
            "end": passed("b", 1, [replace(clean, ends=True)], ghosts, threshold=0.9, reason="stop"),
            "draft": passed("b", 1, [clean], refusing, **verify),
            "accepted": passed("b", 1, [clean, mask], ghosts, threshold=0.9),
            "ended": passed("b", 1, [replace(clean, ends=True)], threshold=0.9, reason="stop"),
            "verified": passed("b", 1, [clean, draft], **verify),
            "copied": passed("b", 1, [clean, replace(draft, source="copy")], **verify),
        },
        "board": board(),
        "steps": steps(),
    }
    for message in found["passes"].values():
        checked(stream.Message, message)
    for message in (found["board"]["opening"], *found["board"]["wrote"].values()):
        checked(BoardMessage, message)
    return found


Rows = Sequence[tuple[Phase, float | None, int, tuple[float, ...]]]
"""Of each pass: its phase, τ, how many tokens it accepted, and the scores of its proposals."""


def run_lane(rows: Rows, *, key: str = "a", decoder: str = "sliding_window") -> Message:
    """A lane as a run keeps it, read back as any file is. Proposal n has the token 10 + n; the first read text."""
    checkpoint: Any = Vocabulary([Token(f"t{number}", ends=number == 2) for number in range(20)])
    chosen = DecodingSettings(block_size=4)
    lane = Lane(key, key, decoder, checkpoint, settings=chosen, prompt_tokens=5)
    for index, (phase, threshold, accepted, scores) in enumerate(rows):
        proposals = tuple(Proposal(10 + n, score, "mask" if n else "clean") for n, score in enumerate(scores))
        row = RowPass(0, lane.tally.tokens, proposals, accepted, threshold)
        row = traced(row, chosen.score, frozenset({2}))
        lane.add(ForwardPass(index, phase, 0.01, max(1, len(scores)), (row,)))
    run = keep("run", "?", chosen.max_new_tokens, [lane])
    found: Message = json.loads(as_json(read(as_json(run))))["lanes"][0]
    return found


def steps() -> dict[str, Message]:
    """The lanes of tests/browser/step.test.mjs."""
    twice: Rows = [("prefill", None, 0, ()), ("decode", 0.9, 2, (1, 0.95, 0.5, 0.99)), ("decode", 0.9, 1, (1, 0.2))]
    return {
        "threshold": run_lane(twice),
        "refused": run_lane([("decode", 0.9, 1, (1, 0.5, 0.99))]),
        "verified": run_lane([("verify", None, 1, (1, 0.5))], decoder="self_speculative"),
        "one token": run_lane([("decode", None, 1, (1,))]),
        "several": run_lane([("decode", 0.9, 2, (1, 1))], key="b"),
    }


def board() -> Message:
    """A score board of two problems: its opening, and what two lanes wrote, by lane."""
    plan = Plan(count=FEWEST, task="logic", first=4)
    lanes = [card("a", "ar", title="=AR"), card("b", "masks", checkpoint="mars, b8"), card("c", "masks", problem="No.")]
    wrote = {
        key: ProblemDone(
            kind="wrote", lane=key, problem=0, right=right, text="t", tokens=6, passes=3, seconds=1.0, reason="stop"
        )
        for key, right in (("a", True), ("b", False))
    }
    return {"opening": opening(plan, plan.problems[:2], lanes), "wrote": wrote}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(cases()))
