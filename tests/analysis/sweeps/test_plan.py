"""Plans: what a group says, and the sentence for what it may not say."""

from pathlib import Path

import pytest

from analysis.sweeps.plan import read_plan
from mars_tasks import TASKS

ROOT = Path(__file__).parents[3]
HEAD = 'schema = 1\nproblems = 3\nseed = 7\ntasks = ["logic"]\nbatch_sizes = [1, 2]\n'
AR = '[[group]]\nname = "one"\ncheckpoints = ["somewhere"]\ndecoders = ["autoregressive"]\n'
WINDOW = '[[group]]\nname = "two"\ncheckpoints = ["somewhere"]\ndecoders = ["sliding_window", "autoregressive"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "some.toml"
    path.write_text(text)
    return path


def test_what_a_plan_says(tmp_path: Path) -> None:
    text = HEAD + AR + WINDOW + 'thresholds = ["none", 1, 0.5]\nseed = 8\ntasks = "all"\nbatch_sizes = 4\ntimed = true'
    plan = read_plan(written(tmp_path, text))
    assert plan.name == "some"
    one, two = plan.groups
    assert (one.name, one.problems, one.seed, one.tasks, one.batch_sizes) == ("one", 3, 7, ("logic",), (1, 2))
    assert (one.thresholds, one.timed, one.chunk) == ((0.95,), False, 96)
    assert (two.thresholds, two.seed, two.tasks, two.batch_sizes) == ((None, 1, 0.5), 8, tuple(TASKS), (4,))
    assert two.timed


@pytest.mark.parametrize("path", sorted((ROOT / "analysis" / "plans").glob("*.toml")), ids=lambda path: path.stem)
def test_every_plan_of_the_repository_can_be_read(path: Path) -> None:
    plan = read_plan(path)
    others = {"block-cache": 809, "pair": 50}  # other problems than those that settings were chosen on
    assert {group.seed for group in plan.groups} == {others.get(path.stem, 808)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema =", "is not TOML"),
        ("schema = 2", "schema must be 1, got 2"),
        ("schema = 1", "a plan needs at least one [[group]]"),
        ("schema = 1\ngroup = 3", "a plan needs at least one [[group]]"),
        ("schema = 1\nluck = 3\n" + AR, "luck is not a key of the plan: choose from problems, seed"),
        (HEAD + AR + "luck = 3", "group one: luck is not a key of a group: choose from name, checkpoints, decoders"),
        (HEAD + '[[group]]\nname = "x"', "group x: checkpoints is missing"),
        (HEAD + AR.replace("autoregressive", "beam"), "decoders must be some of autoregressive, "),
        (HEAD + AR + "thresholds = 0.5", "thresholds is not a setting of autoregressive"),
        (HEAD + WINDOW + "thresholds = ['high']", "thresholds[0] must be a number, got 'high'"),
        (HEAD + WINDOW + "thresholds = []", "thresholds must have at least 1 entry"),
        (HEAD + WINDOW + "chunk = 1", "batch sizes must be between 1 and the chunk of 1, got 2"),
        (HEAD + AR + "problems = 0", "problems must be between 1 and"),
        (HEAD + AR + "tasks = ['chess']", "tasks must be all or some of"),
        (HEAD + AR.replace("autoregressive", "speculative"), "drafts must name the draft checkpoints"),
        (HEAD + AR + "device = 'cpu'\n" + AR, "device must be the same in all groups"),
        (HEAD + AR + "timed = true\n" + AR, "group one: tables with one name take turns, so timed must be the same"),
    ],
)
def test_one_sentence_for_what_is_off(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError) as caught:
        read_plan(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert words in message
    assert "\n" not in message


def test_no_plan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no plan"):
        read_plan(tmp_path / "none.toml")
