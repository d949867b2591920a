"""The benchmark with specs whose times are given: who runs when, which figures follow, what is printed."""

from collections.abc import Sequence

import pytest

from analysis.benches.bench import BenchCase, Result, bench, result_of
from analysis.benches.report import lossless_sentence, to_text
from analysis.decoding.timed import Timed
from analysis.stats.intervals import Estimate
from mars.decoding.base import Prompts


def timed(seconds: float, *outputs: Sequence[int], per_pass: int = 1, records: bool = True) -> Timed:
    """A batch whose rows write `per_pass` tokens a pass; half of the time is the model's."""
    passes = [-(-len(ids) // per_pass) for ids in outputs]
    return Timed(
        outputs=tuple(map(tuple, outputs)),
        seconds=seconds,
        first_token_seconds=(seconds / 10,) * len(outputs),
        token_seconds=(seconds / 100,) * len(outputs),
        model_seconds=seconds / 2 if records else None,
        pass_seconds=(seconds / 20,) * max(passes),
        row_passes=sum(passes),
    )


class Runner:
    """A spec that takes the given seconds for each round, warm-up first, and notes when it was its turn."""

    def __init__(self, label: str, seconds: Sequence[float], turns: list[str], prompts: Prompts):
        self.label, self.turns = label, turns
        self.seconds = iter(seconds)
        self.prompts = prompts

    def __call__(self, prompts: Prompts, places: int) -> Timed:
        self.turns.append(self.label)
        return timed(next(self.seconds), *prompts)


def case(label: str, **options: bool) -> BenchCase:
    """One whose rounds are given."""
    return BenchCase(label=label, decode=lambda *_: timed(1), prompts=(), **options)


def results_of(rounds: dict[str, list[Timed]], lossless: Sequence[str] = ()) -> dict[str, Result]:
    return {label: result_of(case(label, lossless=label in lossless), 2, rounds) for label in rounds}


@pytest.mark.parametrize("uncounted", [1, 4])
def test_order_rotates_and_warm_up_is_not_counted(uncounted: int) -> None:
    prompts = [[1, 9], [2, 9], [3, 9], [4, 9]]
    turns: list[str] = []
    seconds = [*[1000.0] * uncounted, 1.0, 2.0, 3.0, 4.0, 5.0]
    cases = [BenchCase(label=one, decode=Runner(one, seconds * 2, turns, prompts), prompts=prompts) for one in "abc"]
    done: list[int] = []
    results = bench(cases, (2, 3), 5, done.append, uncounted)
    assert turns == list("abc" * uncounted + "abc" + "bca" + "cab" + "abc" + "bca") * 2
    assert sum(done) == len(turns)
    assert [(result.batch_size, result.label) for result in results] == [(size, x) for size in (2, 3) for x in "abc"]
    # The thousand seconds of the warm-up are nowhere.
    assert results[0].rounds == tuple((8, second) for second in (1.0, 2.0, 3.0, 4.0, 5.0))


def test_figures_by_hand() -> None:
    baseline_seconds, own_seconds = [4.0, 6.0, 5.0, 8.0, 7.0], [2.0, 2.0, 1.0, 4.0, 2.0]
    text = [[5, 6, 7, 2], [5, 2]]
    rounds: dict[str, list[Timed]] = {
        "generate": [timed(2 * seconds, *text, records=False) for seconds in baseline_seconds],
        "autoregressive": [timed(seconds, *text) for seconds in baseline_seconds],
        "fast": [timed(seconds, *text, per_pass=2) for seconds in own_seconds],
    }
    figures = results_of(rounds)["fast"].figures
    assert figures["tokens_per_second"] == Estimate.of([3.0, 3.0, 6.0, 1.5, 3.0])
    assert figures["tokens_per_forward"] == Estimate(2.0, 2.0, 2.0)
    assert figures["seconds_per_pass"] == Estimate.of([seconds / 20 for seconds in own_seconds])
    assert figures["ttft_seconds"] == Estimate.of([seconds / 10 for seconds in own_seconds])
    assert figures["tpot_seconds"] == Estimate.of([seconds / 100 for seconds in own_seconds])
    assert figures["outside_model"] == Estimate(0.5, 0.5, 0.5)
    # Paired by round: the median of the ratios, not the ratio of the medians (6 / 2 = 3 here).
    speedup = figures["speedup_over_autoregressive"]
    assert speedup is not None
    assert speedup.median == pytest.approx(3.0)
    assert (speedup.low, speedup.high) == pytest.approx((2.0, 5.0))
    twice = figures["speedup_over_generate"]
    assert twice is not None
    assert twice.median == pytest.approx(6.0)


def test_without_records_or_baselines_some_figures_are_missing() -> None:
    figures = results_of({"generate": [timed(1.0, [2], records=False)] * 5})["generate"].figures
    missing = {name for name, estimate in figures.items() if estimate is None}
    assert missing == {"outside_model", "speedup_over_autoregressive"}


def test_identical_counts_whole_texts_of_the_first_round() -> None:
    right, other = [[5, 6, 2], [7, 2], [8, 2]], [[5, 6, 2], [7, 7], [8, 2]]
    rounds: dict[str, list[Timed]] = {
        "autoregressive": [timed(2.0, *right)] * 5,
        "exact": [timed(1.0, *right)] * 5,  # all in one go
        "broken": [timed(2.0, *other)] * 5,
    }
    results = results_of(rounds, lossless=("exact", "broken"))
    assert {label: result.identical for label, result in results.items()} == {
        "autoregressive": 3,
        "exact": 3,
        "broken": 2,
    }
    assert "NOT lossless: broken at batch size 2 (2 of 3)." in lossless_sentence(list(results.values()))
    assert lossless_sentence([results["exact"]]).startswith("Every lossless decoder")


def test_markdown_has_the_same_cells() -> None:
    cases = [
        BenchCase(label=label, decode=lambda batch, places: timed(1.0, *batch), prompts=[[5, 2]] * 6)
        for label in ("generate", "autoregressive", "exact")
    ]
    results = bench(cases, (1, 4), 5)
    text, markdown = to_text(results), to_text(results, as_markdown=True)
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 * 5
    assert len({line.count("|") for line in rows}) == 1
    assert rows[1].startswith("| --- | ---: |")
    for cell in rows[4].strip("| ").split(" | "):
        assert cell in text
