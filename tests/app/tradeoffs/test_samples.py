from collections.abc import Callable

from app.tradeoffs.card import PAGE, entry_of, samples
from app.tradeoffs.run_cache import RunCache
from mars_tasks import sample

RunOf = Callable[..., str]


def test_families_take_turns_and_pages_follow_each_other(run_cache: RunCache, run_of: RunOf) -> None:
    runs = run_cache.store().runs
    entry = entry_of(runs, run_of("mars", threshold=0.5))
    first, second = samples(runs, entry), samples(runs, entry, first=PAGE)
    assert first["total"] == 400
    places = [(each["task"], each["number"]) for page in (first, second) for each in page["samples"]]
    assert places[:4] == [("logic", 0), ("word_problems", 0), ("logic", 1), ("word_problems", 1)]
    assert len(set(places)) == 2 * PAGE


def test_where_nobody_judged_nothing_is_right_or_wrong(run_cache: RunCache, run_of: RunOf) -> None:
    runs = run_cache.store().runs
    entry = {**entry_of(runs, run_of("mars", threshold=0.5)), "judged": False}
    for right in (None, True, False):
        found = samples(runs, entry, right=right)
        assert found["total"] == 400
        assert {each["right"] for each in found["samples"]} == {None}


def test_the_prompt_is_that_of_the_problem(run_cache: RunCache, run_of: RunOf) -> None:
    runs = run_cache.store().runs
    entry = entry_of(runs, run_of("mars", threshold=0.95))
    (shown, *_) = samples(runs, entry)["samples"]
    assert shown["prompt"] == sample("logic", entry["seed"] * 1_000_000).prompt
    assert shown["text"] == "what mars wrote"
    assert shown["answer"]
