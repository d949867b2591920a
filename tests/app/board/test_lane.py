from collections.abc import Callable

import pytest

from app.board.lane import WARM_UP_TOKENS, BoardLane, Plan, batches
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.metrics import Tally
from mars.records import ForwardPass, RowPass

MakeScholar = Callable[..., Checkpoint]
PLAN = Plan(count=10, task="logic", first=0)


def make_lane(checkpoint: Checkpoint, threshold: float | None = 0.8, decoder: str = "sliding_window") -> BoardLane:
    settings = DecodingSettings(block_size=4, threshold=threshold, max_new_tokens=96)
    return BoardLane("a", "A", checkpoint, decoder, settings, Control(threshold))


def test_every_problem_gets_its_own_counts(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems
    lane = make_lane(make_scholar("scholar", asked, {0, 3, 4}))
    first, second = batches(asked)
    records = list(lane.begin(first))
    ended = [number for record in records for number in lane.add(record)]
    lane.end()
    assert sorted(ended) == sorted(lane.outcomes) == [0, 1, 2, 3, 4]
    assert {number for number, outcome in lane.outcomes.items() if outcome.right} == {0, 3, 4}
    assert lane.outcomes[3].text == asked[3].solution
    assert lane.outcomes[1].text == "I do not know."
    rows = Tally.of(records).rows
    found = [(lane.outcomes[n].tokens, lane.outcomes[n].passes) for n in range(5)]
    assert found == [(rows[n].tokens, rows[n].passes) for n in range(5)]
    for record in lane.begin(second):
        lane.add(record)
    lane.end()
    assert len(lane.outcomes) == 10
    assert lane.right == 3
    assert sum(batch.tokens for batch in lane.batches) == lane.tally.tokens
    assert sum(outcome.tokens for outcome in lane.outcomes.values()) == lane.tally.tokens


def test_a_batch_changes_no_answer(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    checkpoint = make_scholar("scholar", asked, {1, 2})
    together, alone = make_lane(checkpoint), make_lane(checkpoint)
    for record in together.begin(dict(enumerate(asked))):
        together.add(record)
    for number, problem in enumerate(asked):
        for record in alone.begin({number: problem}):
            alone.add(record)
    assert together.outcomes == alone.outcomes


def test_a_stopped_problem_has_no_outcome(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    lane = make_lane(make_scholar("scholar", asked, range(5)))
    for number, record in enumerate(lane.begin(dict(enumerate(asked)))):
        lane.add(record)
        if number == 1:
            lane.control.stop()
    lane.end()
    assert lane.outcomes == {}
    assert lane.batches == []
    assert lane.tally.tokens > 0


def test_thresholds_are_kept_in_order(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    lane = make_lane(make_scholar("scholar", asked, range(5)), threshold=0.95)
    for number, record in enumerate(lane.begin(dict(enumerate(asked)))):
        lane.add(record)
        lane.control.threshold = {2: 0.7, 4: 0.95}.get(number, lane.control.threshold)
    assert lane.thresholds == [0.95, 0.7, 0.95]


def test_a_row_without_end_is_cut(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    lane = make_lane(make_scholar("scholar", asked, range(5)))
    lane.settings = DecodingSettings(block_size=4, threshold=0.8, max_new_tokens=16)
    for record in lane.begin(dict(enumerate(asked))):
        lane.add(record)
    assert {outcome.reason for outcome in lane.outcomes.values()} == {"length"}
    assert {outcome.tokens for outcome in lane.outcomes.values()} == {16}


def test_empty_passes_count_as_time_only(make_scholar: MakeScholar) -> None:
    lane = make_lane(make_scholar("scholar", PLAN.problems[:5], range(5)))
    list(lane.begin(dict(enumerate(PLAN.problems[:5]))))
    lane.add(ForwardPass(0, "prefill", 0.5, 40, (RowPass(0, 0, (), 0, 0.8),)))
    assert lane.tally.seconds == 0.5
    assert lane.tally.passes == 0
    assert lane.thresholds == []


def test_warming_up_is_short_and_counts_nothing(make_scholar: MakeScholar) -> None:
    lane = make_lane(make_scholar("scholar", PLAN.problems, range(5)), threshold=None)
    records = list(lane.warm_up(next(batches(PLAN.problems))))
    assert Tally.of(records).rows[0].tokens == WARM_UP_TOKENS
    assert lane.tally.tokens == 0


def test_an_impossible_decoder_says_so_at_once(make_scholar: MakeScholar) -> None:
    lane = make_lane(make_scholar("ar", PLAN.problems, (), masks=False))
    with pytest.raises(ValueError, match="not trained to fill masks"):
        lane.begin(next(batches(PLAN.problems)))
