"""What the controller lets rows spend, with made-up times and gains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, pairwise

import pytest

from mars.decoding.autoregressive import Autoregressive
from mars.decoding.controller import PATIENCE, REVIEW, TRIED_BY, Controller
from mars.decoding.costs import TRIALS
from mars.decoding.experience import (
    COPY,
    EXACT,
    HOLD,
    LEARNED,
    LOOKUP,
    NOTHING,
    RETRY,
    WINDOWS,
    Account,
    Choice,
    Experience,
    Goodput,
    Known,
)
from mars.decoding.method import Row
from mars.decoding.relaxed import Relaxed
from mars.decoding.self_speculative import SelfSpeculative
from mars.decoding.sliding_window import SlidingWindow
from mars.decoding.trees import PRICE
from mars.decoding.turns import FIRST_TURNS, TURN
from tests.mars.decoding.passes import (
    AUTO,
    DRAFTS,
    GAINS,
    PLANNED,
    Passes,
    Seconds,
    computes,
    fixed,
    jumps,
    name_of,
    row,
    waits_for_memory,
)

TRIED = len(EXACT) * (LEARNED + 2 * REVIEW)


@pytest.mark.parametrize("method", [AUTO, PLANNED], ids=["no trees", "trees"])
@pytest.mark.parametrize(
    "seconds", [waits_for_memory, computes, jumps, lambda q: 1 + q / 20, lambda q: 1 + (q / 40) ** 2]
)
@pytest.mark.parametrize("rows", [1, 3, 24])
def test_it_comes_close_to_the_best_fixed_layout(seconds: Seconds, rows: int, method: SelfSpeculative) -> None:
    passes = Passes(Controller(), seconds)
    passes.join(rows, method=method)
    passes.run(TRIED)
    passes.clock = passes.tokens = 0.0
    passes.run(5 * RETRY)
    names = [choice.layout for choice in EXACT if choice.layout not in ("lookup", "copy") or method is PLANNED]
    best = max(fixed(name, seconds, rows) for name in names)
    assert passes.tokens / passes.clock >= 0.97 * best
    assert passes.tokens / passes.clock >= 0.98 * fixed("none", seconds, rows)


def test_passes_with_masks_that_take_longer_at_the_same_width_are_told_apart() -> None:
    """Times and gains like those of SmolLM2-135M on a CPU with AVX2 alone: alone a tree pays, among eight nothing does.

    A tree of one row has as many columns as eight rows that write one token each.
    """
    gains = {"none": 1.0, "copy": 1.0, "narrow": 1.4, "linear": 1.5, "lookup": 2.1, "quadratic": 2.2}
    passes = Passes(Controller(), lambda columns: 30 + 2.2 * columns, gains, extra=10.0, columns={"lookup": 8})
    took = {1: [0.0, 0.0], 8: [0.0, 0.0]}
    for turn in range(60):
        for rows, [tokens, seconds] in took.items():
            del passes.rows[rows:]
            passes.join(rows - len(passes.rows), method=PLANNED)
            passes.clock = passes.tokens = 0.0
            passes.run(40)
            if turn >= 10:
                took[rows] = [tokens + passes.tokens, seconds + passes.clock]
    (alone, alone_took), (among, among_took) = took.values()
    tree = gains["lookup"] / (passes.seconds(8) + passes.extra)
    assert tree > 1.05 / passes.seconds(1)
    assert alone / alone_took >= 0.96 * tree
    assert among / among_took >= 0.96 * 8 / passes.seconds(8)


def test_a_jump_from_one_column_to_a_few_keeps_no_wide_layout_from_its_trial() -> None:
    """Such are the times and gains of a model of 135 M parameters on a CPU: narrow passes pay least, trees most."""
    gains = {"none": 1.0, "copy": 1.0, "narrow": 1.3, "linear": 1.5, "lookup": 2.3, "quadratic": 3.5}
    passes = Passes(Controller(), jumps, gains)
    passes.join(1, method=PLANNED)
    found = passes.run(TRIED)
    assert found[-1] == {"lookup": 1}
    passes.run(4 * RETRY)
    assert passes.tokens / passes.clock > 1.2


@pytest.mark.parametrize("seconds", [waits_for_memory, computes, jumps, lambda q: 1 + q / 20])
@pytest.mark.parametrize("rows", [1, 4, 24])
def test_where_no_draft_is_ever_right_little_is_lost(seconds: Seconds, rows: int) -> None:
    """Only what it takes to find that out, and to look again ever more seldom."""
    passes = Passes(Controller(), seconds, dict.fromkeys(GAINS, 1.0))
    passes.join(rows, method=PLANNED)
    passes.run(5 * RETRY)
    assert passes.tokens / passes.clock >= 0.92 * rows / seconds(rows)
    passes.clock = passes.tokens = 0.0
    passes.run(5 * RETRY)
    assert passes.tokens / passes.clock >= 0.96 * rows / seconds(rows)


def test_copies_that_gained_nothing_in_one_text_stay_for_the_next() -> None:
    """They looked 4 % slower than one token each, which is less than they gain where a text repeats itself."""
    seen, seconds = Experience(), lambda columns: 0.8 + 0.2 * columns
    for columns in (1, 1, 1, 2, 2, 2):
        seen.times.took(columns, seconds(columns), "plain")
    for choice, columns in ((COPY, 1.2), (NOTHING, 1.0)):
        seen.known[choice, 0, DRAFTS] = Known(1.0, columns, seen=100, passes=100)
    passes = Passes(Controller((), seen), seconds, GAINS | {"copy": 1.0})
    passes.join(1, method=PLANNED)
    passes.run(1)
    assert passes.controller.choice == COPY


def test_interruptions_speak_for_no_choice() -> None:
    """Two of three passes take twice as long as they must, with masks or without."""
    often = cycle((1, 2, 2))
    passes = Passes(Controller(), lambda columns: (1 + columns / 40) * next(often))
    passes.join(8)
    passes.run(TRIED)
    assert sum(names["narrow"] == 8 for names in passes.run(300)) > 250


@pytest.mark.parametrize("seconds", [waits_for_memory, jumps, lambda q: 1 + q / 20])
def test_when_the_load_falls_it_returns(seconds: Seconds) -> None:
    passes = Passes(Controller(), seconds)
    passes.join(1, method=PLANNED)
    passes.run(2 * TRIED)
    alone = passes.run(1)[-1]
    passes.join(31, method=PLANNED)
    passes.run(2 * TRIED)
    del passes.rows[1:]
    assert passes.run(3 * HOLD)[-1] == alone != {"none": 1}


def test_a_column_costs_what_would_be_written_meanwhile() -> None:
    passes = Passes(Controller(), lambda columns: 1 + columns / 20)
    first, _ = passes.join(2, method=PLANNED)
    assert passes.controller.price(first, masked=True) == PRICE, "nothing is known"
    name = passes.run(2 * TRIED)[-1].most_common(1)[0][0]
    rate = fixed(name, passes.seconds, 2)
    for masked in (False, True):
        assert passes.controller.price(first, masked=masked) == pytest.approx(rate / 20, rel=0.15)
    [price] = {one.method.price for one in passes.rows if isinstance(one.method, SelfSpeculative)}
    assert price is not None
    assert price(first, masked=True) == passes.controller.price(first, masked=True)


def test_it_follows_the_number_of_rows_without_trying_everything_again() -> None:
    passes = Passes(Controller(), waits_for_memory)
    passes.join(1)
    assert passes.run(TRIED)[-1] == {"quadratic": 1}
    passes.join(39)
    crowded = passes.run(40)[HOLD + REVIEW :]
    assert all(found["quadratic"] == 0 for found in crowded)
    assert crowded[-1] == {"none": 40}, "no more than 100 columns hold"
    del passes.rows[1:]
    assert passes.run(2 * HOLD + REVIEW)[-1] == {"quadratic": 1}


def test_wide_layouts_are_not_tried_where_the_times_of_narrower_ones_say_that_they_cannot_pay() -> None:
    passes = Passes(Controller(), computes)
    passes.join(30)
    found = sum(passes.run(RETRY), Counter())
    assert max(found["linear"], found["quadratic"]) <= HOLD + REVIEW, "one row, once"
    assert found["narrow"] <= 30 * (HOLD + REVIEW)


def test_rows_that_gain_little_spend_nothing_where_columns_cost() -> None:
    """In one window with those that spend: all have plans."""
    gains = {**GAINS, "copy": 1.0, "narrow": 1.1, "linear": 1.1, "quadratic": 1.1}
    passes = Passes(Controller(), lambda columns: 1 + columns / 30, gains)
    good, dull = (passes.join(4, factor=factor, method=PLANNED) for factor in (1.6, 0.0))
    passes.run(RETRY)
    assert {name_of(one) for one in good} == {"lookup"}
    assert len({one.method for one in passes.rows}) == 1
    spent = Counter(name for _ in range(60) for one in dull for name in [passes.run(1) and name_of(one)])
    assert spent["lookup"] < 0.4 * spent.total(), "looked at again now and then"


def test_layouts_without_plans_are_for_all_rows_or_none() -> None:
    """Rows of two windows are judged apart, which takes time."""
    passes = Passes(Controller(), lambda columns: 1 + columns / 30)
    passes.join(4, factor=1.6)
    passes.join(4, factor=0.0)
    found = passes.run(RETRY)
    assert all(len(one) == 1 for one in found[TRIED:])


def test_some_passes_that_gain_little_say_little_of_a_row() -> None:
    """Gains vary from pass to pass: after one bad draft in a row that has written little, it spends on."""
    account = Account(AUTO, spends=Choice("linear"), before=Choice("linear"))
    for _ in range(3):
        account.passed(1, 3.8)
    assert 0.6 < account.factor < 0.8


def test_others_and_rows_with_a_layout_are_left_alone() -> None:
    passes = Passes(Controller((0.9,)), waits_for_memory)
    other = Autoregressive()
    asked = SelfSpeculative(mask_token_id=31, drafts=DRAFTS, sure=0.5, layout="linear")
    rows = [*passes.join(1, method=other), *passes.join(1, method=asked)]
    passes.run(TRIED, waiting=3)
    assert [one.method for one in rows] == [other, asked]
    assert Controller().plan(rows, reading=0, waiting=0, places=4) == []


def test_a_change_must_pay_and_then_stays() -> None:
    """Times that jitter by a tenth do not make it jump about."""
    jitter = iter(range(10**6))
    passes = Passes(
        Controller(), lambda columns: waits_for_memory(columns) * (0.95 + 0.1 * (next(jitter) * 7 % 11) / 10)
    )
    passes.join(12)
    passes.run(TRIED)
    found = [max(one, key=one.__getitem__) for one in passes.run(3 * RETRY)]
    changes = [number for number in range(1, len(found)) if found[number] != found[number - 1]]
    assert len(changes) <= 12
    assert all(later - former >= HOLD for former, later in pairwise(changes))


def test_nothing_is_tried_while_prompts_are_read_that_does_not_have_to_be() -> None:
    """What rows spend is the same, for prompts take the same time in all; but a trial makes their first tokens wait."""

    def spent(reading: int) -> list[Counter[str]]:
        passes = Passes(Controller(), lambda columns: 1 + columns / 15)
        passes.join(2)
        passes.run(TRIED)
        return passes.run(3 * RETRY, reading=reading)

    calm, hurried = spent(0), spent(1)
    assert calm[-1] == hurried[-1]
    assert len(set(map(str, calm))) > len(set(map(str, hurried))) == 1


def test_a_load_that_comes_and_goes_asks_for_no_more_trials() -> None:
    """Alone a tree is best, among eight copies are: that is no news each time that the number of rows changes."""
    gains = {"none": 1.0, "copy": 1.2, "narrow": 1.4, "linear": 1.5, "lookup": 2.1, "quadratic": 2.2}
    seen = Experience()
    passes = Passes(Controller(experience=seen), lambda q: 30 + 2.2 * q, gains, extra=10.0, columns={"lookup": 8})
    for rows in (1, 8) * 60:
        del passes.rows[rows:]
        passes.join(rows - len(passes.rows), method=PLANNED)
        last = passes.run(40)[-1]
        if rows == 1:
            alone = last
    assert (alone, last) == ({"lookup": 1}, {"copy": 8})
    assert seen.patience > 2 * RETRY


def test_what_promises_less_is_tried_again_now_and_then() -> None:
    """An interruption of a second made it seem worse than it is."""
    slow = 3.0
    passes = Passes(Controller(), lambda columns: (1.0 + columns / 100) * (slow if columns > 1 else 1.0))
    passes.join(1)
    assert passes.run(TRIED)[-1] == {"none": 1}
    slow = 1.0
    assert passes.run(5 * RETRY)[-1] != {"none": 1}


def test_copies_of_one_row_say_little_of_those_of_many() -> None:
    """Alone, columns are cheap and plans are wide; among sixteen each costs as much as a token is worth."""
    gains = dict.fromkeys(GAINS, 1.0) | {"copy": 2.2}
    passes = Passes(Controller(), lambda columns: 25 + 2 * columns, gains)
    passes.join(1, method=PLANNED)
    assert sum(passes.run(TRIED), Counter())["copy"] > TRIED / 2
    passes.join(15, method=PLANNED)
    passes.run(TRIED)
    passes.clock = passes.tokens = 0.0
    passes.run(RETRY)
    assert passes.tokens / passes.clock >= 0.99 * 16 / passes.seconds(16)


def test_no_more_than_two_rows_try_what_is_new() -> None:
    passes = Passes(Controller(), lambda columns: 1 + columns / 20)
    passes.join(24, method=PLANNED)
    found = passes.run(TRIED)
    settled = passes.controller.choice.layout
    tried = {name for one in found for name in one} - {"none", "copy", settled}
    assert tried
    assert all(one[name] <= TRIED_BY for one in found for name in tried)


def test_a_trial_that_becomes_impossible_has_ended() -> None:
    """A row without plans comes, beside which no row can spend a tree."""
    controller = Controller()
    passes = Passes(controller, waits_for_memory)
    passes.join(6, method=PLANNED)
    while not (controller._trying and controller.choice == LOOKUP):
        passes.run(1)
        assert passes.controller._seen.now < TRIED
    passes.join(1, method=AUTO)
    passes.run(1)
    assert controller.choice == NOTHING
    assert not controller._trying


def test_where_shapes_are_static_all_rows_spend_alike() -> None:
    passes = Passes(Controller(together=True), lambda columns: 1 + columns / 30)
    passes.join(4, factor=1.6)
    passes.join(4, factor=0.0)
    found = passes.run(RETRY)
    assert {len(one) for one in found} == {1}
    assert len(set(map(str, found))) > 1


def test_passes_whose_graphs_are_yet_to_be_captured_speak_against_no_layout() -> None:
    passes = Passes(Controller(together=True), lambda columns: 3 + columns / 50, warming=4)
    passes.join(1)
    passes.run(TRIED)
    assert {name for found in passes.run(60) for name in found} == {"quadratic"}


@pytest.mark.parametrize("threshold", [None, 0.9])
def test_passes_with_the_masks_of_others_are_not_timed_as_passes_without(threshold: float | None) -> None:
    seen = Experience()
    passes = Passes(Controller(experience=seen), waits_for_memory)
    passes.join(1)
    [other] = passes.join(1, method=SlidingWindow(mask_token_id=31, masks=DRAFTS))
    other.control.threshold = threshold  # None: one token a pass
    passes.run(TRIED)
    assert bool(seen.times._profiles["plain"].points) == (threshold is None)


def test_rows_that_come_spend_what_all_others_do_until_the_next_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """To choose anew in each pass takes a small model's passes some percent longer."""
    choose, chosen = Controller._choose, []

    def counted(controller: Controller, rows: Sequence[Row], others: int, *, hurry: bool) -> Goodput:
        chosen.append(len(rows))
        return choose(controller, rows, others, hurry=hurry)

    passes = Passes(Controller(), lambda columns: 1.0)
    passes.join(4)
    assert passes.run(TRIED)[-1] == {"quadratic": 4}
    monkeypatch.setattr(Controller, "_choose", counted)
    for _ in range(REVIEW):
        del passes.rows[0]
        passes.join(1)
        assert passes.run(1) == [{"quadratic": 4}]
    assert chosen == [4]
    passes.join(1, method=replace(AUTO, drafts=DRAFTS - 1))
    passes.run(1)
    assert chosen == [4, 5], "it may not be able to"


def test_what_was_learned_counts_for_the_rows_of_another_run() -> None:
    """Whose numbers are the same, and who spend what pays from their first pass on."""
    seen = Experience()
    passes = Passes(Controller(experience=seen), waits_for_memory)
    passes.join(1)
    assert passes.run(TRIED)[-1] == {"quadratic": 1}
    again = Passes(Controller(experience=seen), waits_for_memory)
    again.join(1)
    assert again.run(1) == [{"quadratic": 1}]


def test_a_clock_that_stands_still_does_no_harm() -> None:
    passes = Passes(Controller(), lambda columns: 0.0)
    passes.join(3, method=PLANNED)
    assert passes.run(2 * RETRY)[-1].total() == 3


def test_the_threshold_falls_while_requests_wait_and_rises_again() -> None:
    controller = Controller((0.99, 0.9))
    passes = Passes(controller, waits_for_memory)
    passes.join(8)
    passes.run(PATIENCE - 1, waiting=1, places=8)
    assert controller.threshold is None
    passes.run(1, waiting=1, places=8)
    assert controller.threshold == 0.99
    passes.run(PATIENCE - 1, waiting=1, places=8)
    passes.run(1, waiting=0, places=16)
    passes.run(PATIENCE - 1, waiting=1, places=8)
    assert controller.threshold == 0.99, "places were free in between"
    passes.run(PATIENCE, waiting=0, places=8)
    passes.run(1, waiting=1, places=8)
    assert controller.threshold == 0.9, "that a short queue is empty for a while says nothing"
    passes.run(5 * PATIENCE, waiting=1, places=8)
    assert controller.threshold == 0.9, "no further"
    assert {one.control.threshold for one in passes.rows} == {0.9}
    passes.run(5 * PATIENCE, waiting=0, places=8)
    assert controller.threshold == 0.9, "the places are taken"
    del passes.rows[4:]
    passes.run(2 * PATIENCE, waiting=0, places=8)
    assert controller.threshold is None


def test_windows_are_for_rows_that_leave_it_open_and_under_load() -> None:
    passes = Passes(Controller((0.9,)), lambda columns: max(1.0, columns / 150))
    loose, bound = passes.join(12), passes.join(2, free=False)
    quiet = sum(passes.run(TRIED, places=14), Counter())
    assert quiet["window"] == 0
    passes.run(PATIENCE + 3 * FIRST_TURNS * TURN + 1, waiting=1, places=14)
    assert {name_of(one) for one in loose} == {"window"}
    assert {name_of(one) for one in bound} == {"none"}
    assert {one.control.threshold for one in bound} == {None}
    del passes.rows[:10]
    began = [
        one
        for _ in range(PATIENCE + HOLD + REVIEW)
        for one in passes.controller.plan(passes.rows, reading=0, waiting=0, places=14)
    ]
    assert [one.number for one in began] == [10, 11], "what a window leaves are no drafts"
    assert "window" not in {name_of(one) for one in passes.rows}


def test_windows_that_write_less_with_the_lowest_threshold_are_tried_with_no_other() -> None:
    """And a later pool of the same engine knows it."""
    seen = Experience()
    for tried in (True, False):
        controller = Controller((0.99, 0.9, 0.7), seen)
        passes = Passes(controller, computes)
        passes.join(8)
        thresholds = []
        for _ in range(40 * TURN):
            names = passes.run(1, waiting=1, places=8)[0]
            if any("window" in name for name in names):
                thresholds.append(passes.rows[0].control.threshold)
        assert set(thresholds) == ({0.7} if tried else set())
        assert len(thresholds) <= 2 * TURN, "one turn of each width is enough"


def test_windows_that_pay_have_the_threshold_that_is_in_force() -> None:
    controller = Controller((0.99, 0.9))
    passes = Passes(controller, lambda columns: max(1.0, columns / 150))
    passes.join(12)
    passes.run(PATIENCE + 4 * FIRST_TURNS * TURN, waiting=1, places=12)
    controller._step = 1
    passes.run(5 * FIRST_TURNS * TURN, places=12)
    assert {name_of(one) for one in passes.rows} == {"window"}
    assert {one.control.threshold for one in passes.rows} == {0.99}


def test_relaxed_verification_takes_turns_with_exact_decoding_under_load() -> None:
    """What the bound in force gains is measured like a window, whatever layout it has; exact rows stay exact."""
    controller = Controller((0.5, 0.3), relaxed=True)
    passes = Passes(controller, waits_for_memory)
    own = Relaxed(**vars(AUTO))
    loose, bound = passes.join(6, method=own), passes.join(2, method=own, free=False)
    for one in bound:
        one.control.threshold = 0.9
    passes.run(2 * TRIED, places=8)
    assert controller.threshold is None
    assert {one.control.threshold for one in loose} == {None}, "without load all are exact"
    in_force = []
    for _ in range(2 * PATIENCE + 2 * FIRST_TURNS * TURN + 40 * TURN):
        # Near misses that stay are worth a third.
        gains = {name: 1 + (gain - 1) * (1.33 if loose[0].control.threshold else 1.0) for name, gain in GAINS.items()}
        passes.gains.update(gains)
        passes.run(1, waiting=1, places=8)
        in_force.append(loose[0].control.threshold)
        assert {type(one.method) for one in passes.rows} == {Relaxed}
    assert controller.threshold == 0.3
    later = in_force[-20 * TURN :]
    assert later.count(0.3) > 0.8 * len(later), "it writes more"
    assert None in in_force[2 * PATIENCE :], "exact decoding had its turns"
    assert {one.control.threshold for one in bound} == {0.9}
    passes.rows = passes.rows[:4]
    passes.run(3 * PATIENCE, waiting=0, places=8)
    assert {one.control.threshold for one in passes.rows} == {None}


def test_turns_with_more_rows_are_not_better_for_it() -> None:
    """As many more rows write while decoding is exact as relaxed verification gains, and more."""
    controller = Controller((0.3,), relaxed=True)
    passes = Passes(controller, waits_for_memory, gains=dict.fromkeys(GAINS, 1.0))
    own = Relaxed(**vars(AUTO))
    passes.join(4, method=own)
    rows, in_force = list(passes.rows), []
    for _ in range(40 * TURN):
        relaxed = rows[0].control.threshold is not None
        passes.gains.update(dict.fromkeys(GAINS, 1.3 if relaxed else 1.0) | {"none": 1.0})
        passes.rows = rows if relaxed else [*rows, *(row(10 + number, own, free=True) for number in range(4))]
        passes.factors |= {10 + number: 1.0 for number in range(4)}
        passes.run(1, waiting=1, places=8)
        in_force.append(rows[0].control.threshold)
    later = in_force[-20 * TURN :]
    assert later.count(0.3) > 0.7 * len(later)


def test_it_tells_the_methods_that_rows_may_be_given() -> None:
    relaxed = Relaxed(**vars(AUTO))
    layouts = {"none", "narrow", "linear", "quadratic"}
    exact = Controller().ways(AUTO, 0.95)
    assert {method.layout for method, _ in exact} == layouts
    assert {threshold for _, threshold in exact} == {None}
    loose = Controller((0.5, 0.3), relaxed=True).ways(relaxed, 0.95)
    assert {(method.layout, one) for method, one in loose} == {(name, one) for name in layouts for one in (None, 0.3)}
    asked = Controller().ways(relaxed, 0.95)
    assert {(method.layout, one) for method, one in asked} == {(name, one) for name in layouts for one in (None, 0.95)}
    windows = Controller((0.9, 0.8)).ways(AUTO, 0.95)
    assert [one for method, one in windows if isinstance(method, SlidingWindow)] == [0.8, 0.8]
    fixed = replace(AUTO, layout="linear")
    assert Controller((0.9,)).ways(fixed, 0.95) == [(fixed, 0.95)]


def test_choices_make_methods() -> None:
    assert Choice("narrow").method(AUTO) == SelfSpeculative(mask_token_id=31, drafts=DRAFTS, sure=0.5, layout="narrow")
    assert [one.method(AUTO) for one in WINDOWS] == [SlidingWindow(mask_token_id=31, masks=masks) for masks in (3, 7)]
    assert NOTHING == EXACT[0]
    assert TRIALS < HOLD
