"""The columns, the attention and the words of Step through, of lanes that real decoders wrote.

What a record says of its pass is compared with the engine in tests/mars/decoding/test_trace.py.
"""

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch

from mars import decoders
from mars.acceptance import threshold_prefix, thresholds
from mars.config import SCORES, DecodingSettings, ScoreName
from mars.decoding.pair import Pair
from mars.records import Reason, from_object
from tests.mars.test_reference import CALIBRATION, CASES
from tests.readers import STOP, clear, hasty
from tests.scripted import ReadingModel

InNode = Callable[..., Any]
Decode = Callable[..., Any]

VOCABULARY, MASK = 60, 59
PROMPT = [5, 9, 4, 30, 17]

DRAWN = """({ columnsOf, seenBy, SteppedLane }, lane) => {
    const stepped = new SteppedLane(lane);
    return stepped.passes.map((pass) => {
        const shape = columnsOf(pass.row);
        const { columns } = shape;
        return {
            prefix: shape.prefix, kinds: columns.map(column => column.kind),
            copied: columns.map(column => column.copied), ids: columns.map(column => column.token),
            positions: columns.map(column => column.position), proposals: columns.map(column => column.proposal),
            tree: shape.tree, sees: columns.map((_, query) => seenBy(shape, query)),
            outcome: stepped.outcome(pass, shape),
            reasons: pass.row.proposals.map((_, place) => stepped.reason(pass, place)),
        };
    });
}"""
TELLING = "({ sentenceOf }, [reasons, about]) => reasons.map(reason => sentenceOf(reason, about))"
MODULES = "step/lane.js"
KINDS = {"clean": "real", "draft": "draft", "copy": "draft", "mask": "mask", "random": "noise", "absent": "none"}


@pytest.fixture
def decode(write_lane: Callable[..., Any]) -> Decode:
    """The lane of a run file."""

    def decode(decoder: str, **changes: Any) -> Any:
        stops = frozenset({STOP})
        known: dict[str, Any] = {"vocab_size": VOCABULARY, "mask_token_id": MASK, "stop_token_ids": stops}
        engine: Any = ReadingModel(clear, **known, calibration=CALIBRATION)
        if decoders.TABLE[decoder].draft:
            engine = Pair(engine, ReadingModel(hasty, **known))
        settings = DecodingSettings(**{"block_size": 4, "max_new_tokens": 40, "threshold": 0.7, **changes})
        return write_lane(engine, decoder, PROMPT, settings)

    return decode


@pytest.mark.parametrize("case", CASES)
def test_what_is_drawn_is_what_the_record_says(in_node: InNode, decode: Decode, case: str) -> None:
    lane = decode(case.partition(",")[0], **CASES[case])
    found = in_node(MODULES, DRAWN, lane)
    assert len(found) == len(lane["records"]) > 5
    for record, drawn in zip(lane["records"], found, strict=True):
        row = from_object(record).rows[0]
        trace = row.trace
        assert trace is not None
        assert drawn["prefix"] == trace.cached
        assert drawn["kinds"] == [KINDS[reads] for reads in trace.reads]
        assert drawn["copied"] == [reads == "copy" for reads in trace.reads]
        assert (drawn["ids"], drawn["positions"]) == (list(trace.ids), list(trace.positions))
        numbers = range(len(trace.ids))
        assert drawn["sees"] == [[key in trace.sees(query) for key in numbers] for query in numbers]
        assert [drawn["proposals"][column] for column in trace.columns] == list(range(len(row.proposals)))
        causal = all(trace.sees(query) == frozenset(range(query + 1)) for query in numbers)
        assert drawn["tree"] == (not causal)
        assert drawn["outcome"].endswith(".")
        assert all(sentence.endswith(".") for sentence in drawn["reasons"])
        for sentence, reason in zip(drawn["reasons"], trace.reasons, strict=True):
            assert "undefined" not in sentence
            assert ("accepted" in sentence) or reason not in ("first", "met")


def test_a_pass_without_masks_says_so(in_node: InNode, decode: Decode) -> None:
    for window, said in (("auto", " This pass read no mask, since none would pay."), ("fixed", "")):
        *_, last = in_node(MODULES, DRAWN, decode("sliding_window", window=window, max_new_tokens=1))
        assert last["outcome"] == f"1 token proposed and accepted.{said}"
        assert last["reasons"][0].endswith(f"always accepted.{said}")


def test_every_reason_has_a_sentence(in_node: InNode) -> None:
    about = {"score": "probability", "threshold": 0.9, "accepted": True}
    told = in_node("shared/reasons.js", TELLING, [get_args(Reason), about])
    assert all(sentence.endswith(".") for sentence in told)
    assert len(set(told)) == len(get_args(Reason))


COUNTED = """({ wouldAccept }, [rows, score, stops, thresholds]) =>
    thresholds.map(each => rows.map(row => wouldAccept(row, each, score, stops)))"""


@pytest.mark.parametrize("score", SCORES)
def test_other_thresholds_accept_what_decoders_would(in_node: InNode, score: ScoreName) -> None:
    rows, columns = 40, 6
    random = torch.Generator().manual_seed(0)
    scores = torch.rand(rows, columns, generator=random).double()
    scores[::2] = (scores[::2] * 100).round() / 100  # equal to a threshold
    ids = torch.randint(1, 8, (rows, columns), generator=random)
    sources = ["clean", *["mask"] * (columns - 1)]
    passes = [
        {
            "threshold": 0.5,
            "accepted": 1,
            "proposals": [
                {"token_id": each, "score": value, "source": source}
                for each, value, source in zip(ids[row].tolist(), scores[row].tolist(), sources, strict=True)
            ],
        }
        for row in range(rows)
    ]
    tried = [each / 100 for each in range(101)]
    found = in_node("step/what-if.js", COUNTED, [passes, score, [STOP], tried])
    for threshold, accepted in zip(tried, found, strict=True):
        expected = threshold_prefix(
            ids,
            scores,
            thresholds_R=thresholds([threshold] * rows, score, "cpu"),
            score=score,
            stop_ids=torch.tensor([STOP]),
            room_R=torch.full((rows,), columns),
        )
        assert accepted == expected.tolist()
