"""The shipped checkpoints in fp32 on held-out problems. Their texts are compared in tests/mars/test_reference.py."""

from pathlib import Path

import pytest

from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import Tally
from mars_tasks import TASKS, sample

FOLDER = Path(__file__).parents[3] / "assets" / "checkpoints"
PROBLEMS = 24
FEW = 6
FIRST_SEED = 500

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def shipped(name: str) -> Checkpoint:
    return load_checkpoint(FOLDER / name, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def mars() -> Checkpoint:
    return shipped("mars-b8")


def test_mars_started_from_the_shipped_baseline() -> None:
    """Its record holds the whole record of what it started from, commit, date and losses included."""
    assert shipped("mars-b8").record["started_from"] == shipped("ar-sft").record


def prompts(checkpoint: Checkpoint) -> list[list[int]]:
    families = list(TASKS)
    problems = [sample(families[number % len(families)], FIRST_SEED + number) for number in range(PROBLEMS)]
    return [checkpoint.encode(problem.prompt) for problem in problems]


@pytest.mark.parametrize("layout", ["linear", "quadratic"])
def test_exact_decoding_gains_tokens(mars: Checkpoint, layout: str) -> None:
    settings = DecodingSettings(block_size=mars.block_size, layout=layout)
    tally = Tally.of(DECODERS["self_speculative"](mars.engine, prompts(mars)[:FEW], settings))
    assert tally.tokens_per_forward > 1.5


def test_masks_gain_tokens(mars: Checkpoint) -> None:
    settings = DecodingSettings(block_size=mars.block_size, threshold=0.95)
    tally = Tally.of(DECODERS["sliding_window"](mars.engine, prompts(mars), settings))
    assert tally.tokens_per_forward > 1.5
