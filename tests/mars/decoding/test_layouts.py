"""The choice of layout, with made-up times: the fastest one, without waste on hopeless ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from mars.decoding.costs import size_of
from mars.decoding.layouts import (
    EXPECTED,
    KEPT,
    LAYOUTS,
    NARROW,
    RETRY,
    TRIALS,
    Chooser,
    Layout,
    chooser_of,
    columns_of,
    layout_of,
    layouts_of,
    reach_of,
)
from mars.decoding.trees import PRICE
from mars.scripted import ScriptedModel

DRAFTS = 7
GAINS: dict[Layout, float] = {"none": 1, "narrow": 3, "linear": 4, "quadratic": 6}
TRIED = len(LAYOUTS) * (
    TRIALS + 1
)  # passes after which every layout has been tried, the first pass of each not counted


def use(
    chooser: Chooser, seconds: Callable[[int], float], passes: int, rows: int = 1, gains: dict[Layout, float] = GAINS
) -> list[Layout]:
    """What is chosen in that many passes, which take `seconds` by their number of columns."""
    chosen = []
    for _ in range(passes):
        layout = chooser.choose(rows)
        columns = columns_of(layout, chooser.drafts)
        chooser.observe(rows, columns, seconds(rows * columns), round(rows * gains[layout]))
        chosen.append(layout)
    return chosen


def informed() -> Chooser:
    """One that has learned what each layout gains, and no times yet."""
    return Chooser(DRAFTS, gains=dict(GAINS))


def busy(columns: int) -> float:
    """Columns are free up to 200, as on a device that waits for memory."""
    return max(1.0, columns / 200)


def small(columns: int) -> float:
    """Every column costs, as on a small processor."""
    return 0.5 + 0.12 * columns


def test_columns() -> None:
    assert [columns_of(layout, 3) for layout in LAYOUTS] == [1, 3, 7, 16]
    assert [columns_of(layout, 7) for layout in LAYOUTS] == [1, 7, 15, 64]
    assert [reach_of(layout, 7) for layout in LAYOUTS] == [0, 3, 7, 7]
    assert [reach_of("narrow", drafts) for drafts in range(1, 10)] == [0, 0, 1, 1, 2, 2, 3, 3, NARROW]
    assert [layouts_of(drafts) for drafts in (2, 3)] == [("none", "linear", "quadratic"), LAYOUTS]


def test_the_number_of_columns_tells_the_layout() -> None:
    """Also with rows of fewer drafts than there could be."""
    for drafts in range(1, 64):
        for layout in layouts_of(drafts):
            most, reach = columns_of(layout, drafts), reach_of(layout, drafts)
            fewest = most if layout == "quadratic" else reach + 1
            assert {layout_of(columns, drafts) for columns in range(fewest, most + 1)} == {layout}


def test_sizes() -> None:
    """Each number of rows up to 8, then in steps of at most a quarter, rounded up."""
    assert [size_of(rows) for rows in range(1, 13)] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 12]
    for rows in range(1, 2000):
        assert rows <= size_of(rows) < 1.25 * rows
        assert size_of(size_of(rows)) == size_of(rows)


@pytest.mark.parametrize(
    ("seconds", "rows", "best"),
    [
        (lambda columns: 1.0, 1, "quadratic"),
        (busy, 1, "quadratic"),
        (busy, 8, "linear"),
        (busy, 40, "narrow"),
        (busy, 400, "none"),
        (small, 1, "narrow"),
        (lambda columns: columns, 1, "none"),
    ],
)
def test_it_takes_the_fastest(seconds: Callable[[int], float], rows: int, best: Layout) -> None:
    rates = {layout: GAINS[layout] / seconds(rows * columns_of(layout, DRAFTS)) for layout in LAYOUTS}
    assert max(rates, key=rates.__getitem__) == best
    chosen = use(Chooser(DRAFTS), seconds, 60, rows)
    assert set(chosen[TRIED:]) == {best}


@pytest.mark.parametrize("chooser", [Chooser(DRAFTS), informed()], ids=["fresh", "informed"])
def test_it_never_tries_a_hopeless_layout_at_large_batches(chooser: Chooser) -> None:
    chosen = use(chooser, lambda columns: columns / 50, 500, rows=100)
    assert not {"linear", "quadratic"} & set(chosen)
    assert chosen.count("narrow") == TRIALS + 1
    assert set(chosen[2 * TRIALS + 1 :]) == {"none"}


def test_narrow_passes_say_whether_linear_ones_may_pay() -> None:
    """Fewer columns are tried first; from their times those of more are extrapolated."""
    assert "linear" in use(informed(), busy, TRIED, rows=16)
    assert "linear" not in use(informed(), small, TRIED, rows=16)


def test_where_there_is_no_narrow_layout_the_others_are_taken() -> None:
    assert use(Chooser(2), lambda columns: 1.0, 60)[-1] == "quadratic"
    assert use(Chooser(2), busy, 60, rows=30)[-1] == "linear"
    assert "narrow" not in use(Chooser(2), lambda columns: columns / 50, 60)


def test_each_batch_size_has_its_best_layout() -> None:
    """One token a pass at the largest: there every column costs."""
    chooser = informed()
    best = {1: "quadratic", 2: "quadratic", 8: "linear", 40: "narrow", 400: "none"}
    chosen: dict[int, list[Layout]] = {rows: [] for rows in best}
    for _ in range(TRIED + 20):
        for rows, layouts in chosen.items():
            layouts.extend(use(chooser, busy, 1, rows))
    assert {rows: set(layouts[TRIED:]) for rows, layouts in chosen.items()} == {
        rows: {layout} for rows, layout in best.items()
    }
    assert "quadratic" not in chosen[400]


@pytest.mark.parametrize(("rows", "best"), [(1, "quadratic"), (8, "linear"), (40, "narrow"), (400, "none")])
@pytest.mark.parametrize("every", [4, 7, 11])
def test_a_pass_that_is_interrupted_now_and_then_changes_nothing(rows: int, best: Layout, every: int) -> None:
    passes = 0

    def interrupted(columns: int) -> float:
        nonlocal passes
        passes += 1
        return busy(columns) * (50 if passes % every == every // 2 else 1)

    chosen = use(informed(), interrupted, 3 * RETRY, rows)
    assert set(chosen[TRIED:]) == {best}


def test_noisy_times_of_every_pass_change_little() -> None:
    chance = random.Random(1)
    chosen = use(informed(), lambda columns: busy(columns) * chance.uniform(0.7, 1.3), 3 * RETRY, 400)
    assert Counter(chosen[TRIED:]).most_common(1)[0][0] == "none"


def test_what_a_layout_gains_is_learned_once_for_all_batch_sizes() -> None:
    """Drafts of a model that never foresees: soon nobody expects anything of them, at any batch size."""
    dull: dict[Layout, float] = dict.fromkeys(LAYOUTS, 1.0)

    def slightly(columns: int) -> float:
        return 1 + 0.01 * columns

    chooser = Chooser(DRAFTS)
    use(chooser, slightly, 200, rows=1, gains=dull)
    assert 1 <= chooser.gain("linear") < 1.2
    again = Counter(use(chooser, slightly, 100, rows=2, gains=dull))
    assert (again["quadratic"], again["none"] > 80) == (0, True)
    assert "quadratic" in use(Chooser(DRAFTS), slightly, 100, rows=2)


def test_a_layout_whose_gain_is_known_from_large_batches_does_not_keep_others_from_a_fair_trial() -> None:
    """Many rows teach what linear gains in a few passes; a few passes of one row must do for quadratic."""
    chooser = Chooser(DRAFTS)
    use(chooser, busy, 2 * TRIALS + 1, rows=400)
    assert chooser.gain("narrow") > 2.4
    in_proportion = EXPECTED["quadratic"] / EXPECTED["narrow"] * chooser.gain("narrow")
    assert chooser.gain("quadratic") == pytest.approx(in_proportion), "not seen yet"
    assert use(chooser, busy, TRIED, rows=1)[-1] == "quadratic"


def test_gains_are_means_whatever_the_number_of_rows() -> None:
    for rows in (1, 30, 150, 1000):
        chooser = Chooser(DRAFTS)
        for number in range(1000):
            chooser.observe(rows, columns_of("linear", DRAFTS), 1.0, rows * (3 + number % 3))
            assert min(EXPECTED["linear"], 3) <= chooser.gain("linear") <= 5
        assert chooser.gain("linear") == pytest.approx(4, abs=1.01)
    assert [Chooser(DRAFTS).gain(layout) for layout in EXPECTED] == list(EXPECTED.values())
    assert [Chooser(1).gain(layout) for layout in layouts_of(1)] == [1, 2, 2], "no more than K + 1"
    told = Chooser(DRAFTS, gains={"quadratic": 8.0})
    assert (told.gain("narrow"), told.gain("linear")) == (4, pytest.approx(16 / 3)), "no more than drafts and one"


def test_the_first_pass_after_another_layout_says_nothing() -> None:
    """It has no drafts, or those of the other layout: a look now and then would make drafts seem useless."""
    chooser = Chooser(DRAFTS)
    narrow = columns_of("narrow", DRAFTS)
    chooser.observe(4, 1, 1.0, 4)
    chooser.observe(4, narrow, 9.0, 4)
    assert ("narrow" in chooser.gains, (4, "narrow") in chooser.times) == (False, False)
    chooser.observe(4, narrow, 2.0, 4 * 3)
    chooser.observe(1, narrow, 9.0, 1)
    chooser.observe(4, narrow, 2.0, 4 * 3)
    assert chooser.times[4, "narrow"].typical == 2
    assert chooser.gain("narrow") == pytest.approx((5 * EXPECTED["narrow"] + 8 * 3) / 13)
    chooser.observe(4, 1, 1.5, 4)
    assert list(chooser.times[4, "none"].seconds) == [1.0, 1.5], "one-token passes need no drafts"
    assert chooser.now == 6


def test_it_looks_again_at_a_layout_that_was_nearly_as_good() -> None:
    close: dict[Layout, float] = {"none": 1, "narrow": 3, "linear": 5.3, "quadratic": 6}
    chooser = Chooser(DRAFTS, gains=dict(close))
    settled = use(chooser, lambda columns: 1.0, 4 * RETRY, rows=10, gains=close)[TRIED:]
    counts = Counter(settled)
    assert counts["quadratic"] > 0.9 * len(settled)
    assert 4 <= counts["linear"] <= 8, "0.88 times as good: worth a look, two passes, every RETRY passes"
    assert counts["none"] == counts["narrow"] == 0


def test_it_changes_its_mind_when_times_change() -> None:
    """As soon as most of the passes that it keeps were slow."""
    chooser = informed()
    assert set(use(chooser, lambda columns: 1.0, TRIED + KEPT)[-KEPT:]) == {"quadratic"}
    chosen = use(chooser, lambda columns: 1.0 if columns < 20 else 8.0, KEPT)
    assert chosen == ["quadratic"] * (KEPT // 2 + 1) + ["linear"] * (KEPT // 2)


def test_batch_sizes_are_apart() -> None:
    chooser = Chooser(DRAFTS)
    for _ in range(30):
        use(chooser, busy, 1, rows=1)
        use(chooser, busy, 1, rows=400)
    assert (chooser.choose(1), chooser.choose(400)) == ("quadratic", "none")


def test_passes_that_nobody_measures_take_what_is_known() -> None:
    """Where rows of other methods share the passes, no pass is observed."""
    fresh = Chooser(DRAFTS)
    assert [fresh.choose(3) for _ in range(2 * TRIALS)] == ["none"] * TRIALS + ["linear"] * TRIALS
    known = Chooser(DRAFTS)
    use(known, busy, 30, rows=1)
    use(known, busy, 30, rows=400)
    assert [known.choose(4) for _ in range(2 * TRIALS)][TRIALS:] == ["quadratic"] * TRIALS
    assert [known.choose(500) for _ in range(TRIALS)] == ["none"] * TRIALS
    use(known, busy, 1, rows=1)
    assert known.choose(2) == "none", "measured again: it tries again"


def test_linear_passes_of_any_width_are_timed_together() -> None:
    chooser = Chooser(DRAFTS)
    for columns in range(DRAFTS + 1, 2 * DRAFTS + 2):
        chooser.observe(1, columns, float(columns), 1)
    assert list(chooser.times) == [(1, "linear")]
    assert chooser.times[1, "linear"].typical == 12, "9 to 15: the first pass does not count"


def test_a_clock_that_stands_still_does_no_harm() -> None:
    chooser = Chooser(DRAFTS)
    assert set(use(chooser, lambda columns: 0.0, 2 * RETRY)) <= set(LAYOUTS)
    assert [chooser.choose(2) for _ in range(2 * TRIALS)][-1] in LAYOUTS


def test_each_engine_has_a_chooser_that_remembers() -> None:
    model, other = ScriptedModel([[5]]), ScriptedModel([[5]])
    assert chooser_of(model, 3) is chooser_of(model, 3)
    assert chooser_of(model, 3) is not chooser_of(model, 4)
    assert chooser_of(model, 3) is not chooser_of(other, 3)


def trees() -> Chooser:
    """One whose passes may be of any width."""
    return Chooser(DRAFTS, trees=True)


def measured(chooser: Chooser, passes: int) -> list[Layout]:
    """What is chosen where a pass takes 10 ms and 1 ms a column, and a tree of 9 columns gains nearly the most."""
    chosen = []
    for _ in range(passes):
        layout = chooser.choose(1)
        columns = {"lookup": 9, "copy": 3}.get(layout) or columns_of(layout, DRAFTS)
        gain = {"lookup": 5.0, "copy": 1.2, **GAINS}[layout]
        chooser.observe(1, columns, 0.01 + 0.001 * columns, round(gain), chooser.chosen)
        chosen.append(layout)
    return chosen


def test_a_tree_is_one_of_the_layouts_where_passes_may_be_of_any_width() -> None:
    assert layouts_of(DRAFTS, trees=True) == ("lookup", "copy", *LAYOUTS[1:])
    assert measured(trees(), 200)[-1] == "lookup"
    assert "lookup" not in measured(Chooser(DRAFTS), 200)


def test_the_price_of_a_column_is_what_would_be_written_meanwhile() -> None:
    chooser = trees()
    assert chooser.price(1) == PRICE, "nothing is known"
    measured(chooser, 200)
    assert chooser.price(1) == pytest.approx(0.001 * 5 / 0.019, rel=0.05)
    assert chooser.price(8) == PRICE, "another size"
