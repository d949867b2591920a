"""The messages of a run to its page: lines of JSON, one a message, only ever appended.

Every message has a `kind`; the browser's `stage.js` draws them in order. Floats are rounded for the page only. The
types are the schema: the code that makes a message is checked against them, and a test checks those of real runs.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field

from mars.decoders import FamilyName
from mars.metrics import Tally
from mars.records import FinishReason, ForwardPass, Proposal, Reason, Source
from mars.schema import StrictDict, page_json

State = Literal["idle", "loading", "queued", "running", "done", "stopped", "failed"]
Kind = Literal["clean", "mask", "draft"]
KINDS: dict[Source, Kind] = {"clean": "clean", "mask": "mask", "draft": "draft", "copy": "draft", "random": "draft"}
"""The kind of an accepted token by what its position read; copies and Jacobi's guesses are drafts like others."""
Token = tuple[str, float, Source, bool, Kind, list[tuple[str, float]]]
"""An accepted token: text, score, source, whether it ends the turn, kind, and up to five (text, probability)."""
Ghost = tuple[str, float, Source]
"""A proposal that a pass did not accept: text, score, source."""


class Counts(StrictDict):
    """The counters of a lane; `shared` is true if other runs took part in its passes: its seconds count them too."""

    tokens: int
    passes: int
    tokensPerForward: float
    seconds: float
    tokensPerSecond: float
    shared: bool


class Card(StrictDict):
    """The card of a lane: its name, settings and notes.

    `settings` are the fields of its `LaneChoice`; `hint` is shown until text comes, `problem` says why it cannot write,
    `inactive` why its settings leave it one token per pass. `earlier` has the questions before this
    run and the lane's own answers, in a conversation that goes on; the lane goes on from `answer_prefix`.
    """

    key: str
    family: FamilyName
    title: str
    checkpoint: str
    decoder: str
    score: str
    settings: dict[str, Any]
    note: str
    hint: str
    problem: str | None
    inactive: str | None
    earlier: list[tuple[str, str]]
    answer_prefix: str


class Follow(StrictDict):
    """A run has begun; the page reads its lines by this id (`app.server.routes`)."""

    kind: Literal["follow"]
    id: str


class Opening(StrictDict):
    """The first message of a run or of the idle stage; if `recorded` its clocks count passes, and it has a `prompt`."""

    kind: Literal["open"]
    id: str
    lanes: list[Card]
    recorded: NotRequired[Literal[True]]
    prompt: NotRequired[str]


class Refusal(StrictDict):
    """The reason why no run starts; the page keeps what it shows."""

    kind: Literal["refusal"]
    id: str
    sentence: str


class Status(StrictDict):
    """The state of the run and the sentence for the status line."""

    kind: Literal["state"]
    state: State
    sentence: str


class Pass(StrictDict):
    """One pass of one lane, its counted passes numbered from 1; `reasons` are those of its tokens, then of its ghosts.

    Without a trace of the run there are no reasons. `masks` is the number of positions that read masks, `seconds` its
    time, `at` the lane's clock when it ended.
    """

    kind: Literal["pass"]
    lane: str
    number: int
    start: int
    threshold: float | None
    window: int
    tokens: list[Token]
    ghosts: list[Ghost]
    reasons: list[Reason]
    masks: int
    seconds: float
    at: float
    counts: Counts


class Counters(StrictDict):
    """New counters of a lane without new text: a pass that accepts nothing."""

    kind: Literal["counts"]
    lane: str
    counts: Counts


class End(StrictDict):
    """The end of a lane: the reason, and the text that still waited for the rest of a character."""

    kind: Literal["end"]
    lane: str
    reason: FinishReason
    tail: str


class Difference(StrictDict):
    """The token of the baseline lane and of another one at which their texts first differ."""

    kind: Literal["difference"]
    tokens: dict[str, int]
    baseline: str


class Agreement(StrictDict):
    """The first `tokens` of a lane equal the baseline's text so far; if `whole`, both texts are equal as a whole."""

    kind: Literal["agreement"]
    lane: str
    baseline: str
    tokens: int
    whole: bool


class Same(StrictDict):
    """These lanes, the baseline first, ended by themselves and wrote the same text."""

    kind: Literal["same"]
    lanes: list[str]


class Correctness(StrictDict):
    """Whether the text of a lane solves the problem."""

    kind: Literal["verdict"]
    lane: str
    right: bool


class SpeedUp(StrictDict):
    """The speed of each other lane over the baseline's (`Lane.speed_over`); None for a model of another size."""

    kind: Literal["speedup"]
    ratios: dict[str, float | None]
    baseline: str


Message = Annotated[
    Follow | Opening | Refusal | Status | Pass | Counters | End | Difference | Agreement | Same | Correctness | SpeedUp,
    Field(discriminator="kind"),
]
"""Whatever a run of Compare tells its page."""


def line(message: Mapping[str, object]) -> str:
    return page_json(message) + "\n"


def lines(messages: Iterable[Mapping[str, object]]) -> str:
    return "".join(map(line, messages))


def state(name: State, sentence: str) -> Status:
    return {"kind": "state", "state": name, "sentence": sentence}


def forward_pass(
    key: str,
    number: int,
    record: ForwardPass,
    *,
    texts: Sequence[str],
    pieces: Mapping[int, str],
    stop_ids: Collection[int],
    counts: Counts,
    alternatives: int = 0,
) -> Pass:
    """A pass that accepted `texts`; `pieces` is the text of each token alone, `alternatives` the most of a token."""
    row = record.rows[0]

    def token(text: str, proposal: Proposal) -> Token:
        found = [(pieces[other], round(probability, 4)) for other, probability in proposal.alternatives[:alternatives]]
        ends = proposal.token_id in stop_ids
        return text, round(proposal.score, 8), proposal.source, ends, KINDS[proposal.source], found

    return {
        "kind": "pass",
        "lane": key,
        "number": number,
        "start": row.start,
        "threshold": row.threshold,
        "window": len(row.proposals),
        "tokens": [token(text, proposal) for text, proposal in zip(texts, row.proposals, strict=False)],
        "ghosts": [(pieces[one.token_id], round(one.score, 8), one.source) for one in row.proposals[row.accepted :]],
        "reasons": list(row.trace.reasons) if row.trace else [],
        "masks": row.masks,
        "seconds": round(record.seconds, 6),
        "at": counts["seconds"],
        "counts": counts,
    }


def counts(tally: Tally, *, shared: bool) -> Counts:
    return {
        "tokens": tally.tokens,
        "passes": tally.passes,
        "tokensPerForward": round(tally.tokens_per_forward, 4),
        "seconds": round(tally.seconds, 5),
        "tokensPerSecond": round(tally.tokens_per_second, 2),
        "shared": shared,
    }


def agreement(key: str, baseline: str, tokens: int, whole: bool = False) -> Agreement:
    return {"kind": "agreement", "lane": key, "baseline": baseline, "tokens": tokens, "whole": whole}
