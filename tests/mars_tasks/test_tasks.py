import itertools
import json
from random import Random

import pytest

from mars_tasks import TASKS, sample
from mars_tasks.base import split_of, vary

CHEAP = [name for name in TASKS if name != "python_functions"]


@pytest.mark.parametrize("task", TASKS)
def test_each_family_uses_eight_templates_or_more(task: str) -> None:
    assert len(TASKS) == 6
    used = {Random(f"{task}/heldout/{seed}").choice(TASKS[task].templates) for seed in range(300)}
    assert len(TASKS[task].templates) >= 8
    assert used == set(TASKS[task].templates)


@pytest.mark.parametrize("task", CHEAP)
def test_only_its_own_solution_passes_its_checker(task: str) -> None:
    problems = [sample(task, seed) for seed in range(200)]
    assert [problem for problem in problems if not TASKS[task].check(problem, problem.solution)] == []
    assert sum(TASKS[task].check(a, b.solution) for a, b in itertools.pairwise(problems)) < 80


def test_solutions_in_python_pass_when_run() -> None:
    templates = set()
    for seed in range(40):
        problem = sample("python_functions", seed)
        templates.add(json.loads(problem.answer)["function"])
        assert TASKS["python_functions"].check(problem, problem.solution), problem
    assert len(templates) > 12


@pytest.mark.parametrize("task", TASKS)
def test_other_texts_are_wrong(task: str) -> None:
    for text in ("", "no idea", "####", "Answer:", "\ud800", "[" * 5000, "def f(:", "answer is (E)"):
        assert not TASKS[task].check(sample(task, 3), text)


@pytest.mark.parametrize("task", TASKS)
def test_training_and_heldout_problems_are_disjoint(task: str) -> None:
    training = {sample(task, seed, "train").prompt for seed in range(1500)}
    heldout = {sample(task, seed, "heldout").prompt for seed in range(600)}
    assert not training & heldout


@pytest.mark.parametrize("task", TASKS)
def test_partition_is_made_on_the_parameters(task: str) -> None:
    rng = Random(0)
    shares = []
    for template in TASKS[task].templates:
        drafts = [template(rng) for _ in range(60)]
        shares += [split_of(template.__name__, draft.parameters) == "heldout" for draft in drafts]
    assert 0.05 < sum(shares) / len(shares) < 0.25


def test_a_seed_gives_one_problem_on_any_machine() -> None:
    problem = sample("word_problems", 6, "train")
    assert problem.prompt == (
        "Toulouse has three times as many sheep as Quito. Quito has three times as many sheep as Cairo. "
        "How many sheep do Toulouse, Quito, and Cairo have in all if Cairo has 4 sheep?"
    )
    assert problem.answer == "52"
    assert sample("word_problems", 6, "train") == problem


@pytest.mark.parametrize(
    ("task", "seed", "split", "named"),
    [("maths", 0, "train", "task"), ("logic", -1, "train", "seed"), ("logic", 2**60, "train", "seed"),
     ("logic", 1.5, "train", "seed"), ("logic", 0, "test", "split")],
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(task: str, seed: int, split: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        sample(task, seed, split)  # type: ignore[arg-type]


def test_wording_varies_and_leaves_other_brackets_alone() -> None:
    assert {vary(Random(seed), "x[1] [a|b [c|d]]") for seed in range(40)} == {"x[1] a", "x[1] b c", "x[1] b d"}


@pytest.mark.parametrize(
    ("task", "answer", "text", "right"),
    [
        ("word_problems", "14", "20 - 6 = 14.\n#### 14", True),
        ("word_problems", "14", "#### 14\n#### 15", False),
        ("word_problems", "14", "#### 14.5", False),
        ("word_problems", "14", "so 14", False),
        ("logic", "April 16", "It is still April.\nAnswer: april 16.", True),
        ("logic", "yes", "Answer: no", False),
        ("multiple_choice", "C", "The answer is (C).", True),
        ("multiple_choice", "C", "The answer is (A).", False),
        ("multiple_choice", "A", "The answer is Ana.", False),
        ("table_lookup", "21", "Answer: 21", True),
    ],
)
def test_final_answers(task: str, answer: str, text: str, right: bool) -> None:
    assert TASKS[task].check_text(answer, text) is right


@pytest.mark.parametrize(
    ("rules", "text", "right"),
    [
        ([["bullets", 2]], "- a\n- b", True),
        ([["bullets", 2]], "Here:\n- a\n- b", False),
        ([["items", "fruits", 2]], "pear, plum", True),
        ([["items", "fruits", 2]], "pear, pear", False),
        ([["items", "fruits", 2]], "pear, saw", False),
        ([["sentences", 2]], "A. B.", True),
        ([["upper"]], "PEAR", True),
        ([["quoted"]], '"I saw it."', True),
        ([["quoted"]], "I saw it.", False),
        ([["starts", "Ana"], ["ends", "river"]], "Ana saw the river.", True),
        ([["avoids", " old "]], "Old owls, being old.", False),
        ([["avoids", " old "]], "The cold owl.", True),
        ([["key", "pet", "owl"]], '{"pet": "owl"}', True),
        ([["key", "pet", "owl"]], '{"pet": "owl"', False),
    ],
)
def test_rules_of_instructions(rules: list[list[object]], text: str, right: bool) -> None:
    assert TASKS["instructions"].check_text(json.dumps(rules), text) is right


def test_python_answers_are_judged_by_running_them() -> None:
    answer = json.dumps({"function": "add_2", "cases": [[[1], 3], [[-2], 0]]})
    check = TASKS["python_functions"].check_text
    assert check(answer, "Here it is:\n```python\ndef add_2(x):\n    return x + 2\n```\nDone.")
    assert check(answer, "def add_2(x):\n    return 2 + x")
    assert not check(answer, "def add_2(x):\n    return x + 3")
    assert not check(answer, "def add_3(x):\n    return x + 2")
