"""What rows spend by measured times and their own acceptance, and τ under load, on passes that are made up."""

import itertools
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.decoding.method import Row
from mars.decoding.policy import AGAIN, PATIENCE, SOON, TIMED, Policy
from mars.metrics import Tally, output_ids
from tests.scripted import ScriptedModel

FREE = DecodingSettings(block_size=8, layout="auto", window="auto")
Seconds = Callable[[int, bool], float]


def flat(columns: int, masked: bool) -> float:
    """Columns are nearly free; an adapter makes a pass with masks a half longer."""
    return (1 + 0.01 * columns) * (1.5 if masked else 1.0)


def steep(columns: int, masked: bool) -> float:
    """Each column costs as much as the first."""
    return float(columns)


@dataclass
class Passes:
    """Rows of windows whose masks are accepted with these chances, each if those before it are."""

    seconds: Seconds
    chances: list[float]
    static: bool = False
    clock: float = 0.0
    tokens: int = 0
    spent: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        engine = ScriptedModel([[5]], static_shapes=self.static)
        self.policy, self.dice = Policy(engine), random.Random(5)
        method = METHODS["self_speculative" if self.static else "sliding_window"](engine, FREE)
        self.rows = [
            Row(number=number, prompt=[3], method=method, settings=FREE, control=Control(0.9))
            for number in range(len(self.chances))
        ]

    def run(self, count: int) -> None:
        """Make so many passes; the first of each size is interrupted."""
        for _ in range(count):
            self.policy.plan(self.rows, reading=0, waiting=0, places=8)
            self.spent.append([row.masks for row in self.rows])
            columns = 0
            for row, chance in zip(self.rows, self.chances, strict=True):
                judged = row.drafted if self.static and row.masks else row.masks
                hits = (self.dice.random() < chance for _ in range(min(judged, 7)))
                columns += max(row.gained, 1) + row.masks
                columns += 8 - max(row.gained, 1) if self.static and row.masks else 0
                row.gained = 1 + sum(itertools.takewhile(bool, hits))
                row.drafted = 7 if row.masks else 0
                self.tokens += row.gained
            masked = any(row.masks for row in self.rows)
            seconds = self.seconds(columns, masked) * (5 if self.dice.random() < 0.05 else 1)
            self.clock += self.seconds(columns, masked)
            self.policy.observe(self.rows, columns, seconds, masked=masked)


def test_masks_that_are_accepted_are_spent() -> None:
    passes = Passes(flat, [0.95])
    passes.run(300)
    assert passes.tokens / passes.clock > 1.5
    assert statistics.median(spent for [spent] in passes.spent[-50:]) > 3


@pytest.mark.parametrize("seconds", [flat, steep])
def test_masks_that_gain_nothing_cost_little(seconds: Seconds) -> None:
    passes = Passes(seconds, [0.02])
    passes.run(1000)
    alone = 1 / seconds(1, False)
    assert passes.tokens / passes.clock > 0.96 * alone
    later = [spent for [spent] in passes.spent[AGAIN:]]
    assert sum(map(bool, later)) < 0.15 * len(later)
    assert any(later) == (seconds is flat), "tried again where they may pay"


def test_a_text_is_tried_with_one_mask_until_that_is_right() -> None:
    passes = Passes(lambda columns, masked: 1 + 0.05 * columns * masked, [0.0])
    passes.run(100)
    tried = [spent for [spent] in passes.spent if spent]
    assert tried == [7] * TIMED + [1] * (len(tried) - TIMED)
    assert TIMED + 4 < len(tried) < 25
    passes.chances = [1.0]
    passes.run(2 * AGAIN)
    assert {spent for [spent] in passes.spent[passes.spent.index([1], 100) + 2 :]} == {0, 7}
    passes.chances = [0.0]
    passes.run(100)
    assert passes.spent[-100:][: TIMED + 2] == [[7]] * (TIMED + 2), "misses where masks pay change little at once"
    assert {spent for [spent] in passes.spent[-60:]} == {0, 1}


@pytest.mark.parametrize("others", [[], [0.95]])
def test_a_text_that_turns_predictable_gets_masks_again(others: list[float]) -> None:
    passes = Passes(flat, [0.0, *others])
    passes.run(300)
    passes.chances = [0.95, *others]
    passes.run(AGAIN + 50)
    assert sum(spent > 0 for spent, *_ in passes.spent[-50:]) > 40


def test_a_first_pass_without_luck_soon_has_another() -> None:
    passes = Passes(flat, [0.0])
    passes.run(16)
    passes.chances = [0.95]
    passes.run(SOON + 4)
    assert [passes.spent[15], min(spent for [spent] in passes.spent[-4:]) > 0] == [[0], True]


def test_new_rows_and_thresholds_try_masks_at_once() -> None:
    passes = Passes(flat, [0.02])
    passes.run(300)
    passes.rows[0].control.threshold = 0.5
    passes.run(20)
    passes.rows = [replace(passes.rows[0], number=1, method=passes.rows[0].own)]
    passes.run(1)
    assert [passes.spent[at][0] > 3 for at in (299, 300, -1)] == [False, True, True]


def test_masks_of_another_row_leave_nothing_untimed() -> None:
    passes = Passes(flat, [0.95, 0.95])
    fixed = METHODS["sliding_window"](ScriptedModel([[5]]), replace(FREE, window="fixed"))
    passes.rows[1] = replace(passes.rows[1], method=fixed, masks=7)
    passes.run(50)
    assert sum(spent > 0 for spent, _ in passes.spent) > 40


@pytest.mark.parametrize(("masked", "dear", "chance"), [(True, 1.5, 0.95), (False, 3.0, 0.5)])
def test_times_that_were_wrong_at_first_are_corrected(masked: bool, dear: float, chance: float) -> None:
    """Of passes with masks, which then pay, or of those without, where no mask does."""
    left = {masked: 2 * 6, not masked: 0}

    def seconds(columns: int, masks: bool) -> float:
        left[masks] -= 1
        return (dear if masks else 1.0) * (10 if left[masks] >= 0 else 1)

    passes = Passes(seconds, [chance])
    passes.run(2 * AGAIN)
    passes.rows = [replace(passes.rows[0], number=1, method=passes.rows[0].own)]
    passes.run(100)
    assert (sum(spent > 0 for [spent] in passes.spent[-50:]) > 40) == masked


def test_passes_may_take_no_time() -> None:
    passes = Passes(lambda columns, masked: 0.0, [0.95])
    passes.run(20)
    assert passes.tokens > 20


def test_each_row_spends_what_its_text_is_worth() -> None:
    passes = Passes(flat, [0.95, 0.05, 0.95, 0.05])
    passes.run(400)
    high, low = (sum(sum(spent[row] for row in rows) for spent in passes.spent[-100:]) for rows in ((0, 2), (1, 3)))
    assert high > 3 * low
    assert sum(spent > 0 for _, spent, *_ in passes.spent) < 200, "not even one in each"


@pytest.mark.parametrize(("seconds", "chance", "most"), [(flat, 0.95, 7), (steep, 0.5, 0)])
def test_in_static_shapes_all_rows_have_one_layout(seconds: Seconds, chance: float, most: int) -> None:
    passes = Passes(seconds, [chance, chance], static=True)
    passes.run(200)
    assert all(len(set(spent)) == 1 for spent in passes.spent)
    assert statistics.mode(spent[0] for spent in passes.spent[-50:]) == most


def rows_of(count: int, *, free: bool) -> list[Row]:
    engine = ScriptedModel([[5]])
    method = METHODS["relaxed"](engine, FREE)
    return [
        Row(number=number, prompt=[3], method=method, settings=FREE, control=Control(0.95, free=free))
        for number in range(count)
    ]


def test_the_queue_moves_the_threshold_and_back() -> None:
    knob = Policy(ScriptedModel([[5]]), (0.9, 0.5))
    free, own = rows_of(4, free=True), rows_of(1, free=False)

    def load(waiting: int, taken: int, passes: int = PATIENCE) -> float | None:
        for _ in range(passes):
            knob.plan([*free[:taken], *own], reading=0, waiting=waiting, places=10)
        assert all(row.control.threshold == knob.threshold for row in free[:taken])
        assert own[0].control.threshold == 0.95, "asked for"
        return knob.threshold

    Policy(ScriptedModel([[5]])).plan([*free, *own], reading=0, waiting=1, places=10)
    assert {row.control.threshold for row in free} == {0.95}, "the usual one, where there are no others"
    assert load(1, 4, PATIENCE - 1) is None
    assert [load(1, 4, 1), load(1, 4), load(1, 4)] == [0.9, 0.5, 0.5]
    assert [load(0, 4), load(0, 4), load(0, 4)] == [0.9, None, None]
    load(1, 4)
    knob.restart()
    assert knob.threshold is None


def test_a_window_that_fits_follows_the_text() -> None:
    """Masks see every second stretch of ten tokens; each pass takes as long, with masks a half longer."""

    def script(row: int, position: int, masks: int) -> tuple[int, float]:
        return 5 + position % 20, 0.99 if not masks or position // 40 % 2 == 0 else 0.1

    settings = DecodingSettings(max_new_tokens=400, block_size=8, threshold=0.9, window="auto")
    records = list(DECODERS["sliding_window"](ScriptedModel(script, seconds_per_pass=0.5), [[3]], settings))
    assert output_ids(records) == [5 + position % 20 for position in range(400)]
    assert {sum(one.source == "mask" for one in row.proposals) for record in records for row in record.rows} > {0, 7}
    assert Tally.of(records).passes < 250
