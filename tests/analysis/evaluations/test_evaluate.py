"""Evaluation with a decoder that knows the answers: what is counted, for which problems, and in which order."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from analysis.evaluations.evaluate import Evaluation, Plan, evaluate, to_dict, to_table
from analysis.stats.intervals import wilson_interval
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.records import ForwardPass, Proposal, RowPass
from mars.tasks import SEED_STRIDE, TASKS, sample

SETTINGS = DecodingSettings(threshold=0.9)
PER_PASS = 4
PASS_SECONDS = 0.5
TASK_NAMES = tuple(TASKS)


@dataclass
class TextCheckpoint:
    """Stands in for a checkpoint: a token is a character."""

    engine: object = None
    encoded: list[str] = field(default_factory=list)

    def encode(self, text: str) -> list[int]:
        self.encoded.append(text)
        return [ord(letter) for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


class Oracle:
    """A decoder that writes the solution, four characters a pass, but "wrong" for every prompt listed in `wrong`."""

    def __init__(self, plan: Plan, wrong: Sequence[str] = ()):
        problems = [problem for task in plan.tasks for batch in plan.batches(task) for problem in batch]
        self.replies = {problem.prompt: problem.solution for problem in problems} | dict.fromkeys(wrong, "wrong")
        self.batches: list[tuple[int, int]] = []

    def __call__(
        self, engine: object, prompts: Sequence[Sequence[int]], settings: DecodingSettings, control: object = None
    ) -> Iterator[ForwardPass]:
        self.batches.append((len(prompts), settings.max_new_tokens))
        replies = [self.replies["".join(map(chr, prompt))] for prompt in prompts]
        yield ForwardPass(
            0, "prefill", PASS_SECONDS, 1, tuple(RowPass(row, 0, (), 0, 0.9) for row in range(len(replies)))
        )
        longest = max(map(len, replies))
        for index, start in enumerate(range(0, longest, PER_PASS), start=1):
            rows = [self._row(row, start, text) for row, text in enumerate(replies) if start < len(text)]
            yield ForwardPass(index, "decode", PASS_SECONDS, len(rows), tuple(rows))

    def _row(self, row: int, start: int, text: str) -> RowPass:
        proposals = tuple(Proposal(ord(letter), 1.0, "clean") for letter in text[start : start + PER_PASS])
        last = start + PER_PASS >= len(text)
        return RowPass(row, start, proposals, len(proposals), 0.9, "stop" if last else None)


def run(add_decoder: Callable[..., None], plan: Plan, wrong: Sequence[str] = ()) -> tuple[Evaluation, Oracle]:
    oracle = Oracle(plan, wrong)
    add_decoder("oracle", oracle)
    return evaluate(TextCheckpoint(), "oracle", SETTINGS, plan), oracle  # type: ignore[arg-type]


def test_an_oracle_solves_every_family(add_decoder: Callable[..., None]) -> None:
    evaluation, _ = run(add_decoder, Plan(problems=3, seed=1, batch_size=2))
    assert list(evaluation.scores) == list(TASK_NAMES)
    assert {score.accuracy for score in evaluation.scores.values()} == {1.0}
    assert (evaluation.overall.n, evaluation.overall.accuracy) == (18, 1.0)
    assert evaluation.threshold == 0.9


def test_mean_is_the_mean_of_the_families(add_decoder: Callable[..., None]) -> None:
    plan = Plan(problems=4, seed=2, tasks=("logic", "table_lookup"), batch_size=3)
    wrong = [sample("logic", 2 * SEED_STRIDE + number).prompt for number in (0, 3)]
    evaluation, _ = run(add_decoder, plan, wrong)
    found = to_dict(evaluation)
    assert found["accuracy"] == {"mean": 0.75, "logic": 0.5, "table_lookup": 1.0}
    assert found["interval"]["mean"] == wilson_interval(6, 8)
    assert found["interval"]["logic"] == wilson_interval(2, 4)


def test_tokens_passes_and_seconds_by_hand(add_decoder: Callable[..., None]) -> None:
    plan = Plan(problems=3, seed=3, tasks=("logic", "table_lookup"), batch_size=2)
    evaluation, _ = run(add_decoder, plan)
    found = to_dict(evaluation)
    tokens, passes, seconds = 0, 0, 0.0
    for task in plan.tasks:
        for batch in plan.batches(task):
            lengths = [len(problem.solution) for problem in batch]
            tokens += sum(lengths)
            passes += sum(-(-length // PER_PASS) for length in lengths)
            seconds += PASS_SECONDS * (1 + -(-max(lengths) // PER_PASS))
    assert (found["tokens"], found["passes"], found["seconds"]) == (tokens, passes, seconds)
    assert found["tokens_per_forward"] == tokens / passes
    assert found["tokens_per_second"] == tokens / seconds
    assert found["n"] == 6
    assert found["n_by_task"] == {"logic": 3, "table_lookup": 3}


def test_passes_of_a_draft_model_are_said_beside_those_that_count(add_decoder: Callable[..., None]) -> None:
    plan = Plan(problems=2, seed=3, tasks=("logic", "table_lookup"))
    own, _ = run(add_decoder, plan)
    oracle = DECODERS["oracle"]

    def drafting(*given: object) -> Iterator[ForwardPass]:
        for record in oracle(*given):  # type: ignore[arg-type]
            rows = tuple(replace(part, accepted=0, finish_reason=None) for part in record.rows)
            yield replace(record, phase="draft", rows=rows)
            yield record

    add_decoder("oracle", drafting)
    found = evaluate(TextCheckpoint(), "oracle", SETTINGS, plan)  # type: ignore[arg-type]
    assert found.overall.passes == own.overall.passes
    assert found.overall.draft_passes == own.overall.passes + own.overall.n  # one more for each prompt
    assert to_dict(found)["draft_passes"] == found.overall.draft_passes
    share = f"{found.overall.draft_passes / found.overall.passes:.2f}"
    assert [line.split()[-1] for line in to_table(found).splitlines()[::3]] == ["passes/forward", share]
    assert "draft" not in to_table(own)


def test_batch_size_changes_no_outcome(add_decoder: Callable[..., None]) -> None:
    plans = [Plan(problems=5, seed=4, tasks=("instructions", "logic"), batch_size=size) for size in (1, 2, 5, 64)]
    found = [to_dict(run(add_decoder, plan)[0]) for plan in plans]
    for name in ("accuracy", "tokens", "tokens_per_forward_by_task", "n_by_task"):
        assert [each[name] for each in found[1:]] == [each[name] for each in found[:-1]]


def test_warm_up_is_short_and_not_counted(add_decoder: Callable[..., None]) -> None:
    _, oracle = run(add_decoder, Plan(problems=3, seed=5, tasks=("logic",), batch_size=2))
    assert oracle.batches == [(2, 4), (2, SETTINGS.max_new_tokens), (1, SETTINGS.max_new_tokens)]


def test_seeds_share_no_problem_and_are_held_out() -> None:
    first, second = (Plan(problems=20, seed=seed, tasks=("logic",)) for seed in (0, 1))
    seeds = [{problem.seed for batch in plan.batches("logic") for problem in batch} for plan in (first, second)]
    assert seeds == [set(range(20)), set(range(SEED_STRIDE, SEED_STRIDE + 20))]
    assert next(first.batches("logic"))[0] == sample("logic", 0, "heldout")


def test_progress_adds_up(add_decoder: Callable[..., None]) -> None:
    plan = Plan(problems=5, seed=6, tasks=("logic", "table_lookup"), batch_size=2)
    add_decoder("oracle", Oracle(plan))
    done: list[int] = []
    evaluate(TextCheckpoint(), "oracle", SETTINGS, plan, done.append)  # type: ignore[arg-type]
    assert done == [2, 2, 1, 2, 2, 1]


def test_unknown_decoder_lists_the_choices() -> None:
    with pytest.raises(ValueError, match=r"decoder must be one of autoregressive, .*got 'beam'"):
        evaluate(TextCheckpoint(), "beam", SETTINGS, Plan(problems=1, seed=0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"problems": 0}, "problems must be between 1 and 1000000, got 0"),
        ({"problems": SEED_STRIDE + 1}, "got 1000001"),
        ({"seed": -1}, "seed must be >= 0 and < .*, got -1"),
        ({"seed": 2**53}, "seed must be >= 0 and < "),
        ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
        ({"tasks": ("logic", "chess")}, "tasks must be .*logic.*, got 'logic, chess'"),
        ({"tasks": ("logic", "logic")}, "each once"),
        ({"tasks": ()}, "tasks must be"),
    ],
)
def test_bad_plans(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Plan(**({"problems": 1, "seed": 0} | change))  # type: ignore[arg-type]


def test_plans_are_keyword_only_and_frozen() -> None:
    with pytest.raises(TypeError):
        Plan(problems=1, seed=0, task=("logic",))  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Plan(problems=1, seed=0).seed = 2  # type: ignore[misc]


def test_table_and_dictionary(add_decoder: Callable[..., None]) -> None:
    evaluation, _ = run(add_decoder, Plan(problems=2, seed=7))
    lines = to_table(evaluation).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [line.split()[0] for line in lines] == ["task", *TASK_NAMES, "mean"]
    assert "100.0%" in lines[-1]
    assert set(json.loads(json.dumps(to_dict(evaluation), allow_nan=False))["accuracy"]) == {"mean", *TASK_NAMES}
