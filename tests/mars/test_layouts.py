"""The choice of layout, with made-up times: the fastest one, without waste on hopeless ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from mars.decoding.layouts import LAYOUTS, RETRY, TRIALS, Chooser, Layout, chooser_of, columns_of
from mars.scripted import ScriptedModel

DRAFTS = 7
GAINS: dict[Layout, float] = {"none": 1, "linear": 4, "quadratic": 6}


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


def busy(columns: int) -> float:
    """Columns are free up to 200, as on a device that waits for memory."""
    return max(1.0, columns / 200)


def narrow(columns: int) -> float:
    """Every column costs, as on a small processor."""
    return 0.5 + 0.15 * columns


def test_columns() -> None:
    assert [columns_of(layout, 3) for layout in LAYOUTS] == [1, 7, 16]


@pytest.mark.parametrize(
    ("seconds", "rows", "best"),
    [
        (lambda columns: 1.0, 1, "quadratic"),
        (busy, 1, "quadratic"),
        (busy, 8, "linear"),
        (busy, 400, "none"),
        (narrow, 1, "linear" if 4 / narrow(15) > 1 / narrow(1) else "none"),
    ],
)
def test_it_takes_the_fastest(seconds: Callable[[int], float], rows: int, best: Layout) -> None:
    rates = {layout: GAINS[layout] / seconds(rows * columns_of(layout, DRAFTS)) for layout in LAYOUTS}
    assert max(rates, key=rates.__getitem__) == best
    chosen = use(Chooser(DRAFTS), seconds, 60, rows)
    assert set(chosen[3 * TRIALS :]) == {best}


def test_it_never_tries_a_hopeless_layout_at_large_batches() -> None:
    chosen = use(Chooser(DRAFTS), lambda columns: columns / 50, 500, rows=100)
    assert "quadratic" not in chosen
    assert chosen.count("linear") <= TRIALS


def test_what_other_batch_sizes_gained_says_what_is_hopeless() -> None:
    """Drafts of a model that never foresees are tried once, at the first batch size, but for the cheaper layout."""
    chooser = Chooser(DRAFTS)
    dull: dict[Layout, float] = {"none": 1, "linear": 1, "quadratic": 1}
    use(chooser, busy, 30, rows=1, gains=dull)
    assert "quadratic" not in use(chooser, busy, 100, rows=2, gains=dull)


def test_it_looks_again_at_a_layout_that_was_nearly_as_good() -> None:
    chooser = Chooser(DRAFTS)
    close: dict[Layout, float] = {"none": 1, "linear": 5, "quadratic": 6}
    settled = use(chooser, lambda columns: 1.0, 4 * RETRY, gains=close)[3 * TRIALS :]
    counts = Counter(settled)
    assert counts["quadratic"] > 0.9 * len(settled)
    assert counts["linear"] >= 2, "0.83 times as good: worth a look every RETRY passes"
    assert counts["none"] == 0


def test_it_changes_its_mind_when_times_change() -> None:
    chooser = Chooser(DRAFTS)
    assert use(chooser, lambda columns: 1.0, 30)[-1] == "quadratic"
    assert use(chooser, lambda columns: 1.0 if columns < 20 else 8.0, 60)[-1] == "linear"


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


def test_columns_of_no_layout_teach_nothing() -> None:
    chooser = Chooser(DRAFTS)
    chooser.observe(1, 3, 1.0, 1)
    assert not any(seen.passes for seen in chooser.seen.values())


def test_a_clock_that_stands_still_does_no_harm() -> None:
    assert set(use(Chooser(DRAFTS), lambda columns: 0.0, 20)) <= set(LAYOUTS)


def test_each_engine_has_a_chooser_that_remembers() -> None:
    model, other = ScriptedModel([[5]]), ScriptedModel([[5]])
    assert chooser_of(model, 3) is chooser_of(model, 3)
    assert chooser_of(model, 3) is not chooser_of(model, 4)
    assert chooser_of(model, 3) is not chooser_of(other, 3)
