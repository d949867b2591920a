"""The measured part of a card, on runs made up."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.benchmarks import card as module
from analysis.benchmarks.card import BEGIN, END, default_of, measured_part, with_measured
from analysis.benchmarks.ifeval import Prompt
from analysis.benchmarks.spec_bench import Question
from analysis.runs import RunStore
from mars.checkpoint.calibration import scores_of
from mars_tasks import TASKS

CATEGORIES = ("writing", "writing", "qa", "qa", "qa", "qa")
QUESTIONS = [Question(number=n, category=category, turns=("x",)) for n, category in enumerate(CATEGORIES)]
PROMPTS = [Prompt(key=n, text="x", instructions=("a", "b"), arguments=({}, {})) for n in range(8)]
LOG = [{"loss": 9.0 - n, "alone_1": 0.8, "alone_2": 0.5, "alone_3": 0.1, "step": 10 * n, "run": 1} for n in range(4)]
RECORD: dict[str, Any] = {
    "stage": "adapter",
    "masks": 6,
    "block_size": 3,
    "measured": {"steps": 41, "seconds": 7200.0, "log": [*LOG, {"train_runtime": 1.0}]},
}


def checked(prompt: Prompt, text: str) -> tuple[bool, ...]:
    return True, prompt.key < 2


@pytest.fixture
def runs(fabricate: Any) -> list[Any]:
    """The adapter and its base on Spec-Bench in turns, and on two sizes of IFEval."""
    base = {**fabricate.model("base", None, None, None), "fingerprint": "b" * 16}
    adapter = {**fabricate.model("adapter"), "fingerprint": "a" * 16, "base": "b" * 16}
    other = {**fabricate.model("other"), "fingerprint": "c" * 16, "base": "b" * 16}
    timed = {"tasks": ("spec_bench",), "problems": 6, "batch_size": 1, "group": "spec_bench/x"}
    asked = {"tasks": ("ifeval",), "problems": 8, "batch_size": 32}
    return [
        fabricate.run(base, speed=100.0, **timed),
        fabricate.run(adapter, "self_speculative", gain=2.0, speed=150.0, layout="auto", **timed),
        fabricate.run(adapter, "prompt_lookup", gain=1.5, speed=120.0, **timed),
        fabricate.run(base, accuracy=0.5, **asked),
        fabricate.run(adapter, "sliding_window", accuracy=0.5, **asked),
        fabricate.run(adapter, "sliding_window", threshold=0.5, accuracy=0.25, gain=2.0, **asked),
        fabricate.run(adapter, "self_speculative", layout="tree", accuracy=0.5, gain=3.0, **asked),
        fabricate.run(adapter, "sliding_window", accuracy=0.5, **{**asked, "problems": 4, "batch_size": 16}),
        fabricate.run(other, "sliding_window", threshold=0.9, accuracy=0.5, **asked),
    ]


@pytest.mark.parametrize(
    ("right", "same", "chosen", "within"),
    [((0.9, 0.9, 0.5, 0.9), 1.0, 0.9, True), ((0.5, 0.9, 0.9, 0.9), 1.0, 0.99, False), ((0.9,) * 4, 0.98, 0.9, True)],
)
def test_the_threshold_to_begin_with(
    fabricate: Any, right: tuple[float, ...], same: float, chosen: float, within: bool
) -> None:
    ar = {**fabricate.model("sft", "sft"), "fingerprint": "b" * 16}
    own = {**fabricate.model("mars"), "fingerprint": "a" * 16}
    timed = {"tasks": tuple(TASKS), "problems": 40, "batch_size": 1, "group": "shipped/x"}
    tried = zip((None, 0.99, 0.9, 0.7, 0.5), (0.9, *right), strict=True)
    runs = [fabricate.run(ar, accuracy=0.9, speed=100.0, **timed)]
    runs += [
        fabricate.run(own, "sliding_window", threshold=threshold, accuracy=accuracy, gain=2.0, speed=200.0, **timed)
        for threshold, accuracy in tried
    ]
    runs.append(fabricate.run(own, "sliding_window", threshold=0.6, **{**timed, "problems": 80}))  # without its AR
    entry, rows = fabricate.run(own, "sliding_window", threshold=0.7, **{**timed, "tasks": ("chat",)})
    runs.append(({**entry, "judged": False}, rows.assign(tokens=50, agreeing=int(50 * same), turn=0)))
    found = default_of(fabricate.store(runs), "a" * 16, "b" * 16)
    assert (found["threshold"], found["within"], found["score"]) == (chosen, within, "probability")
    assert [stop["threshold"] for stop in found["stops"]] == [None, 0.99, 0.9, 0.7, 0.5], "one token is no default"
    assert {stop["n"] for stop in found["stops"]} == {40 * len(TASKS)}
    for stop, accuracy in zip(found["stops"], (0.9, *right), strict=True):
        value, low, high = stop["points"]
        assert value == pytest.approx(100 * accuracy - 90, abs=1)
        assert low <= value <= high
        assert stop["speed"][0] == pytest.approx(2, rel=0.1)
    assert scores_of({"default": found}).default.threshold == chosen
    assert default_of(fabricate.store(runs), "c" * 16, "b" * 16) is None


def test_speeds_of_few_stand_beside_points_of_many(fabricate: Any) -> None:
    ar = {**fabricate.model("sft", "sft"), "fingerprint": "b" * 16}
    own = {**fabricate.model("mars"), "fingerprint": "a" * 16}
    many = {"tasks": tuple(TASKS), "problems": 40, "batch_size": 16}
    timed = {"tasks": tuple(TASKS), "problems": 10, "batch_size": 1, "group": "pair/x"}
    runs = [fabricate.run(ar, speed=100.0, **each) for each in (many, timed)]
    for threshold, speed in ((0.99, 150.0), (0.9, 200.0)):
        tried = {"threshold": threshold, "gain": 2.0, "speed": speed}
        runs += [fabricate.run(own, "sliding_window", **tried, **each) for each in (many, timed)]
    runs.append(fabricate.run(own, "self_speculative", layout="tree", gain=3.0, speed=250.0, **timed))
    store = fabricate.store(runs)
    found = default_of(store, "a" * 16, "b" * 16)
    assert [stop["n"] for stop in found["stops"]] == [40 * len(TASKS)] * 2
    assert [stop["speed"][0] for stop in found["stops"]] == pytest.approx([1.5, 2.0], rel=0.1)
    part = measured_part(RECORD, store, "a" * 16, "b" * 16, QUESTIONS, PROMPTS, lambda: checked)
    clock = part[part.index("## On the clock") :]
    assert [line.split(" | ")[0] for line in clock.splitlines()[6:]] == ["| τ = 0.99", "| τ = 0.9", "| exact, tree"]


def test_sections_are_of_the_record_and_runs(fabricate: Any, runs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CURVE_ROWS", 2)
    part = measured_part(RECORD, fabricate.store(runs), "a" * 16, "b" * 16, QUESTIONS, PROMPTS, lambda: checked)
    lines = part.splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        "## By training steps",
        "## Spec-Bench by category",
        "## IFEval, 8 prompts",
    ]
    assert "| 20 | 1.0 | 8.50 | 80% | 50% | 2.20 |" in lines
    assert "| 41 | 2.0 | 6.50 | 80% | 50% | 2.20 |" in lines
    [writing], [qa], [overall] = (
        [line.split(" | ") for line in lines if line.startswith(f"| {category} | ")]
        for category in ("writing", "qa", "overall")
    )
    assert (writing[1], qa[1], overall[1]) == ("2", "4", "6")
    per_pass = [f"{rows['tokens'].sum() / rows['passes'].sum():.2f}" for _, rows in runs]
    assert [cell[:4] for cell in overall[2:]] == [per_pass[1], "1.50", per_pass[2], "1.20"]
    told = [line.split(" | ") for line in lines if " τ = 0.5 | " in line or "one token" in line or "tree" in line]
    assert [cells[0] for cells in told] == ["| one token", "| τ = 0.5", "| exact, tree"]
    assert told[1][1].startswith("2: 25.0 % [")
    assert told[1][2].startswith("62.5 % ["), "all of one instruction and two of the other"
    assert told[1][3].startswith("−25.0 [")
    assert told[1][4] == f"{per_pass[5]} |"
    assert "| AR, base | 4: 50.0 % [" in part


@pytest.mark.parametrize(("threshold", "named"), [(0.0, "relaxed, τ = 0"), (None, "relaxed, one token")])
def test_a_run_is_named_by_its_threshold(fabricate: Any, threshold: float | None, named: str) -> None:
    entry, _ = fabricate.run(fabricate.model("any"), "relaxed", threshold=threshold)
    assert module._label(entry, "") == named


def test_without_runs_nothing_is_checked() -> None:
    def never() -> Any:
        raise AssertionError

    assert measured_part(RECORD, RunStore(), "a" * 16, "b" * 16, QUESTIONS, PROMPTS, never).startswith(
        "## By training steps"
    )
    empty = {**RECORD, "measured": {**RECORD["measured"], "log": []}}
    assert measured_part(empty, RunStore(), "a" * 16, "b" * 16, QUESTIONS, PROMPTS, never) == ""


def test_the_part_replaces_the_one_before() -> None:
    first = with_measured("# Card\n\nWords.\n", "one")
    assert first == f"# Card\n\nWords.\n\n{BEGIN}\n\none\n\n{END}\n"
    assert with_measured(first + "\nMore.\n", r"two \1") == first.replace("one", r"two \1") + "\nMore.\n"


def test_the_command_writes_into_a_card(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, runs = tmp_path / "mine", ["--runs", str(tmp_path / "runs")]
    shutil.copytree(tiny_folder, folder)
    (folder / "README.md").write_text("# Mine\n")
    assert main(["card", "--checkpoint", str(folder), *runs]) == 2
    assert "has no runs of" in capsys.readouterr().err
    decoders = ["--decoders", "autoregressive,sliding_window@0.5", "--problems", "1", "--seed", "3"]
    small = ["--max-new-tokens", "4", "--device", "cpu"]
    assert main(["evaluate", "--checkpoint", str(folder), *decoders, *small, *runs]) == 0
    capsys.readouterr()
    assert main(["card", "--checkpoint", str(folder), "--baseline", str(folder), *runs]) == 0
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith(f"# Mine\n\n{BEGIN}\n\n## Families of problems\n")
    assert capsys.readouterr().out in card.replace(f"\n{END}", "")
