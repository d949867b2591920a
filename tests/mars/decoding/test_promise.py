"""Which rows a promise to users favours, and what that does to the price of their columns."""

from __future__ import annotations

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.method import Row
from mars.decoding.promise import MOST, SAFE, Promise
from tests.mars.decoding.passes import AUTO

TPOT = 0.02
PRICE = 0.3


def row(number: int, written: int = 0, most: int = 128) -> Row:
    settings = DecodingSettings(max_new_tokens=most)
    return Row(number=number, prompt=[3], method=AUTO, settings=settings, control=Control(None), written=written)


def prices(promise: Promise, rows: list[Row]) -> list[float]:
    promise.weigh(rows)
    return [promise.price(one, PRICE) for one in rows]


def test_without_a_promise_and_for_a_row_alone_the_price_is_as_it_was() -> None:
    rows = [row(0, 1), row(1, 1)]
    for promise, each in ((Promise(None), rows), (Promise(TPOT), rows[:1])):
        promise.passed(each, 5.0)
        promise.passed(each, 5.0)
        assert prices(promise, each) == [PRICE] * len(each)


def test_a_row_as_slow_as_promised_pays_less_and_those_beside_it_more() -> None:
    promise, rows = Promise(TPOT), [row(0, 1), row(1, 1)]
    promise.passed(rows, 1.0)
    assert prices(promise, rows) == [PRICE, PRICE]
    rows[0].written += 1
    rows[1].written += 1 + round(SAFE)
    promise.passed(rows, TPOT)
    mean = (1 + MOST + 1) / 2
    assert prices(promise, rows) == pytest.approx([PRICE * mean / (1 + MOST), PRICE * mean])
    rows[0].written += round(SAFE / 2)
    promise.passed(rows, 0.0)
    assert promise.price(rows[0], PRICE) < prices(promise, rows)[0] < PRICE, (
        "the nearer to safety, the less is at stake"
    )


def test_its_first_tokens_are_no_advance_however_many_and_however_long_the_wait() -> None:
    promise, rows = Promise(TPOT), [row(0), row(1)]
    promise.passed(rows, 3.0)  # another prompt is read
    assert prices(promise, rows) == [PRICE, PRICE]
    rows[0].written, rows[1].written = 9, 1
    promise.passed(rows, 1.0)
    assert prices(promise, rows) == [PRICE, PRICE]


def test_the_time_in_which_prompts_are_read_counts() -> None:
    promise, old = Promise(TPOT), row(0, 1)
    promise.passed([old], 1.0)
    old.written += round(SAFE)
    promise.passed([old, row(1)], 0.0)
    young = row(1, 1)
    promise.passed([old, young], 0.0)
    before = prices(promise, [old, young])
    promise.passed([old, young, row(2)], TPOT * SAFE)
    assert before[0] > PRICE > before[1]
    assert prices(promise, [old, young]) == [PRICE, PRICE], "both have no time left now"


def test_a_row_that_can_hardly_catch_up_is_given_up() -> None:
    promise, rows = Promise(TPOT), [row(0, 1, most=40), row(1, 1, most=400)]
    promise.passed(rows, 0.0)
    promise.passed(rows, 1.0)  # 50 tokens' time
    lost, behind = prices(promise, rows)
    assert lost > PRICE > behind
    assert lost / behind == pytest.approx(1 + MOST)
