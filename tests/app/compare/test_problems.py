import pytest

from app.compare import problems
from app.runs.run import shipped
from mars_tasks import TASKS


def test_there_is_an_example_of_every_family() -> None:
    assert {task for _, task, _ in problems.EXAMPLES} == set(TASKS)


def test_the_first_question_is_the_recorded_one() -> None:
    prompts = [prompt for _, prompt in problems.QUESTIONS]
    assert prompts[0] == shipped()["5-first-look"].question.prompt
    assert len(set(prompts)) == len({label for label, _ in problems.QUESTIONS}) == 8


@pytest.mark.parametrize("task", TASKS)
def test_known_answers_read_as_words(task: str) -> None:
    for seed in range(30):
        answer = problems.known_answer(problems.find(task, seed))
        assert answer
        assert not answer.startswith(("{", "[")), answer


def test_a_seed_may_be_a_whole_float() -> None:
    assert problems.find("logic", 4.0) == problems.find("logic", 4)


@pytest.mark.parametrize("seed", [None, -1, 1.5, 10**9, "4", True, float("nan")])
def test_an_impossible_seed_gets_a_sentence(seed: object) -> None:
    with pytest.raises(ValueError, match="whole number between 0 and 999,999"):
        problems.find("logic", seed)


def test_an_unknown_family_gets_a_sentence() -> None:
    with pytest.raises(ValueError, match="Choose one of the families"):
        problems.find("astrology", 1)
