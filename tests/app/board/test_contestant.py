from collections.abc import Callable

import pytest

from app.board.contestant import WARM_UP_TOKENS, Contestant
from app.board.plan import Plan, batches
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.metrics import Tally
from mars.records import ForwardPass, RowPass

MakeScholar = Callable[..., Checkpoint]
PLAN = Plan(count=10, task="logic", first=0)


def lane(checkpoint: Checkpoint, threshold: float | None = 0.8, decoder: str = "sliding_window") -> Contestant:
    settings = DecodingSettings(block_size=4, threshold=threshold, max_new_tokens=96)
    return Contestant("a", "A", checkpoint, decoder, settings, Control(threshold))


def test_every_problem_of_a_batch_gets_an_outcome_with_its_own_counts(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems
    contestant = lane(make_scholar("scholar", asked, {0, 3, 4}))
    first, second = batches(asked)
    records = list(contestant.begin(first))
    ended = [number for record in records for number in contestant.add(record)]
    contestant.end()
    assert sorted(ended) == sorted(contestant.outcomes) == [0, 1, 2, 3, 4]
    assert {number for number, outcome in contestant.outcomes.items() if outcome.right} == {0, 3, 4}
    assert contestant.outcomes[3].text == asked[3].solution
    assert contestant.outcomes[1].text == "I do not know."
    rows = Tally.of(records).rows
    found = [(contestant.outcomes[n].tokens, contestant.outcomes[n].passes) for n in range(5)]
    assert found == [(rows[n].tokens, rows[n].passes) for n in range(5)]
    for record in contestant.begin(second):
        contestant.add(record)
    contestant.end()
    assert len(contestant.outcomes) == 10
    assert contestant.right == 3
    assert sum(batch.tokens for batch in contestant.batches) == contestant.tally.tokens
    assert sum(outcome.tokens for outcome in contestant.outcomes.values()) == contestant.tally.tokens


def test_a_batch_gives_each_problem_what_it_gets_alone(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    checkpoint = make_scholar("scholar", asked, {1, 2})
    together, alone = lane(checkpoint), lane(checkpoint)
    for record in together.begin(dict(enumerate(asked))):
        together.add(record)
    for number, problem in enumerate(asked):
        for record in alone.begin({number: problem}):
            alone.add(record)
    assert together.outcomes == alone.outcomes


def test_a_stopped_problem_has_no_outcome_and_its_batch_is_not_over(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    contestant = lane(make_scholar("scholar", asked, range(5)))
    for number, record in enumerate(contestant.begin(dict(enumerate(asked)))):
        contestant.add(record)
        if number == 1:
            contestant.control.stop()
    contestant.end()
    assert contestant.outcomes == {}
    assert contestant.batches == []
    assert contestant.tally.tokens > 0


def test_thresholds_are_those_in_force_one_after_the_other(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    contestant = lane(make_scholar("scholar", asked, range(5)), threshold=0.95)
    for number, record in enumerate(contestant.begin(dict(enumerate(asked)))):
        contestant.add(record)
        contestant.control.threshold = {2: 0.7, 4: 0.95}.get(number, contestant.control.threshold)
    assert contestant.thresholds == [0.95, 0.7, 0.95]


def test_what_a_row_without_an_end_wrote_is_cut_at_the_length_limit(make_scholar: MakeScholar) -> None:
    asked = PLAN.problems[:5]
    contestant = lane(make_scholar("scholar", asked, range(5)))
    contestant.settings = DecodingSettings(block_size=4, threshold=0.8, max_new_tokens=16)
    for record in contestant.begin(dict(enumerate(asked))):
        contestant.add(record)
    assert {outcome.reason for outcome in contestant.outcomes.values()} == {"length"}
    assert {outcome.tokens for outcome in contestant.outcomes.values()} == {16}


def test_passes_that_accept_nothing_count_as_time_and_not_as_passes(make_scholar: MakeScholar) -> None:
    contestant = lane(make_scholar("scholar", PLAN.problems[:5], range(5)))
    list(contestant.begin(dict(enumerate(PLAN.problems[:5]))))
    contestant.add(ForwardPass(0, "prefill", 0.5, 40, (RowPass(0, 0, (), 0, 0.8),)))
    assert contestant.tally.seconds == 0.5
    assert contestant.tally.passes == 0
    assert contestant.thresholds == []


def test_warming_up_is_short_and_counts_nothing(make_scholar: MakeScholar) -> None:
    contestant = lane(make_scholar("scholar", PLAN.problems, range(5)), threshold=None)
    records = list(contestant.warm_up(next(batches(PLAN.problems))))
    assert Tally.of(records).rows[0].tokens == WARM_UP_TOKENS
    assert contestant.tally.tokens == 0


def test_a_decoder_that_cannot_run_says_so_at_once(make_scholar: MakeScholar) -> None:
    contestant = lane(make_scholar("ar", PLAN.problems, (), masks=False))
    with pytest.raises(ValueError, match="not trained to fill masks"):
        contestant.begin(next(batches(PLAN.problems)))
