from analysis.evaluations.card import model_card
from analysis.evaluations.evaluate import Evaluation, Plan, Score

ORIGIN = {
    "hardware": "a machine",
    "date": "2026-01-02T03:04:05+00:00",
    "commit": "abc",
    "torch": "1",
    "transformers": "2",
}
SFT = {
    "stage": "sft",
    "block_size": None,
    "measured": {"examples": 1200, "steps": 30, "seconds": 90.0},
    "provenance": {**ORIGIN, "command": "python -m mars.training sft …"},
    "started_from": None,
}
MARS = {
    **SFT,
    "stage": "mars",
    "block_size": 8,
    "provenance": {**ORIGIN, "command": "python -m mars.training mars …"},
    "started_from": SFT,
}
MEASURED = {**ORIGIN, "command": "python -m analysis card …", "dtype": "float32", "max_new_tokens": 192}


def evaluation(threshold: float | None, right: int) -> Evaluation:
    score = Score(n=4, correct=right, tokens=24, passes=8, seconds=2.0)
    return Evaluation(threshold=threshold, scores={"logic": score})


def test_card_shows_every_row_and_both_stages() -> None:
    rows = [("sliding_window", evaluation(threshold, 2)) for threshold in (None, 0.95)]
    rows.insert(0, ("autoregressive on ar", evaluation(None, 3)))
    card = model_card("m", MARS, rows, Plan(problems=4, seed=7), MEASURED)
    assert card.startswith("---\nlicense: apache-2.0\n")
    assert "| autoregressive on ar | – | 75.0% | 30.1% – 95.4% | 3.00 | 75% |" in card
    assert "| sliding_window | 0.95 | 50.0% | 15.0% – 85.0% | 3.00 | 50% |" in card
    assert "block size 8" in card
    assert "seed 7" in card
    assert card.index("mars.training mars") < card.index("mars.training sft")
    assert "AR SFT: 1,200 conversations, 30 steps, 2 minutes on a machine, 2026-01-02" in card


def test_card_of_the_baseline_has_one_row_and_no_block_size() -> None:
    card = model_card("ar", SFT, [("autoregressive", evaluation(None, 3))], Plan(problems=4, seed=7), MEASURED)
    assert "| autoregressive | – | 75.0%" in card
    assert "block size" not in card
