"""Prompts to choose from: questions, and problems by family and seed with their known answers in words."""

from random import SystemRandom

from app.scheduling import whole
from mars_tasks import TASKS, Problem, sample

LARGEST_SEED = 999_999
EXAMPLES: tuple[tuple[str, str, int], ...] = (
    ("Counting sheep", "word_problems", 2),
    ("Python", "python_functions", 2),
    ("Tallest", "logic", 1),
    ("Table", "table_lookup", 2),
    ("A, B, C or D", "multiple_choice", 2),
    ("Instruction", "instructions", 3),
)
"""(label, family, seed) of the example buttons."""

_GREAT_WALL = (
    "Summarize the following paragraph in two sentences.\n\nThe Great Wall of China was built over many centuries to "
    "protect the northern borders of the empire. Most of what stands today dates from the Ming dynasty, between the "
    "14th and 17th centuries. It is more than 20,000 kilometres long, and millions of people visit it every year."
)


def family_choices() -> list[tuple[str, str]]:
    """(label, name) of every task family, for a drop-down list."""
    return [(name.replace("_", " ").capitalize(), name) for name in TASKS]


def new_seed() -> int:
    return SystemRandom().randint(0, LARGEST_SEED)


def find(task: str, seed: object) -> Problem:
    """The held-out problem of this family and seed; ValueError with one sentence if there is none."""
    seed = whole(seed)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"The seed must be a whole number between 0 and {LARGEST_SEED:,}.")
    if not isinstance(task, str) or task not in TASKS:
        raise ValueError("Choose one of the families in the list.")
    return sample(task, seed)


_LEARNED = (
    ("Word problem", "word_problems", 34),
    ("Table", "table_lookup", 15),
    ("Walk", "logic", 31),
    ("Python", "python_functions", 8),
)
QUESTIONS: tuple[tuple[str, str], ...] = (
    *((label, find(task, seed).prompt) for label, task, seed in _LEARNED),
    ("Code", "Write a Python function that reverses a string."),
    ("Explain", "Why is the sky blue?"),
    ("Summarise", _GREAT_WALL),
    ("List", "List five tips for sleeping better."),
)
"""(label, prompt) of the buttons for a language model: problems that the real pair solves, of the families that it was
trained on, and questions, of 72 tried, that SmolLM2-135M answers best."""


def known(prompt: str) -> Problem | None:
    """The example that asks this."""
    examples = (find(task, seed) for _, task, seed in (*_LEARNED, *EXAMPLES))
    return next((problem for problem in examples if problem.prompt == prompt), None)


def asked(prompt: str, task: str, seed: object) -> Problem | None:
    """The problem of this family and seed, if it is what this prompt asks."""
    try:
        problem = find(task, seed)
    except ValueError:
        return None
    return problem if problem.prompt == prompt else None


def known_answer(problem: Problem) -> str:
    """The known answer in one line, where a single text is right."""
    return problem.answer if problem.answer[:1] not in ("{", "[") else "many are right; a program checks each"


def is_right(problem: Problem, text: str) -> bool:
    """Whether the generated text solves the problem; Python runs in the tasks' sandbox."""
    return TASKS[problem.task].check(problem, text)
