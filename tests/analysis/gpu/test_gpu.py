"""`python -m analysis gpu`: every step rehearsed with tiny sizes, and how steps end, resume and are passed over."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.gpu import running
from analysis.gpu.running import Outcome, OutcomeFile, hindrance, run_step
from analysis.gpu.steps import SHIPPED_AR, Setup, Step, steps_of
from analysis.gpu.targets import targets
from analysis.recipes import RECIPES
from mars import generate
from mars.training import __main__ as training

ENTRIES = {"analysis": main, "mars.generate": generate.main, "mars.training": training.main}


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(out=tmp_path / "gpu", device="cpu", base=SHIPPED_AR, tiny=True)


def _step(code: str, **fields: object) -> Step:
    return Step(**{"name": "one", "does": "x", "minutes": 1, "commands": (("-c", code),), "needs": (), **fields})  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("small_tensors")
def test_every_step_is_rehearsed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    """In this process, which imports torch once; `test_a_step_is_a_process` runs one by itself."""
    called: list[str] = []

    def call(words: list[str], log: Path, seconds: float) -> tuple[int, str]:
        name, arguments = words[2], list(words[3:])
        called.append(name)
        if name == "pytest":
            return 0, ""
        before = capsys.readouterr()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        code = ENTRIES[name](arguments)
        found = capsys.readouterr()
        log.write_text(found.err + found.out, encoding="utf-8")
        sys.stdout.write(before.out)
        return code, found.out

    monkeypatch.setattr(running, "_call", call)
    out = tmp_path / "gpu"
    arguments = ["gpu", "--out", str(out), "--device", "cpu", "--tiny"]
    assert main(arguments) == 0, (out / "gpu.json").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert "A rehearsal: its figures mean nothing." in printed
    steps = steps_of(Setup(out=out, device="cpu", base=SHIPPED_AR, tiny=True))
    found = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    left = [name for name, outcome in found["steps"].items() if outcome["state"] != "done"]
    assert set(left) <= {"ifeval", "tests"}, found  # what checks IFEval, and pytest's helpers, may be missing
    for step in steps:
        if step.result is not None and step.name not in left:
            assert {"command", "commit", "hardware"} <= json.loads(step.result.read_text(encoding="utf-8")).keys()
    models = [run["model"] for run in json.loads((out / "runs" / "index.json").read_text())["runs"]]
    adapted = next(model for model in models if "base" in model)
    assert adapted["base"] in [model["fingerprint"] for model in models], "a run names the adapter's base"
    assert adapted["fingerprint"] != adapted["base"]
    assert called.count("mars.training") == 2
    before = len(called)
    assert main(arguments) == 0
    assert len(called) == before, "what is done does not run again"
    assert main([*arguments, "--step", "agree-float32"]) == 0
    assert len(called) == before + 1


def test_a_step_is_a_process_with_a_limit(setup: Setup) -> None:
    code = "import json, sys; print('a log line', file=sys.stderr); print(json.dumps({'a': 1}))"
    found = run_step(_step(code, result=setup.runs / "one.json"), setup)
    assert (found.state, found.why) == ("done", "")
    assert json.loads((setup.runs / "one.json").read_text(encoding="utf-8")) == {"a": 1}
    assert "a log line" in (setup.out / "logs" / "one.log").read_text(encoding="utf-8")
    failed = run_step(_step("raise SystemExit('it broke')"), setup)
    assert (failed.state, failed.why) == ("failed", "exit code 1: it broke")
    endless = "import time; time.sleep(60)"
    assert run_step(_step(endless), setup, minutes=0).state == "failed"
    assert run_step(_step(endless, goes_on=True), setup, minutes=0).state == "unfinished"
    assert run_step(_step("", result=setup.runs / "none.json"), setup).why == "it printed no result"


def test_what_stands_in_the_way_is_one_sentence(setup: Setup) -> None:
    outcome_file = OutcomeFile(setup)
    missing = _step("", needs=("no_such_module", "json"))
    assert hindrance(missing, outcome_file, lambda: None) == "no_such_module is not installed here"
    waits = _step("", after=("first",), base=True)
    assert hindrance(waits, outcome_file, lambda: "no base.") == "it needs the step first"
    outcome_file.note("first", Outcome(state="done", seconds=1.0, date=""))
    assert hindrance(waits, OutcomeFile(setup), lambda: "no base.") == "no base."
    assert hindrance(_step(""), outcome_file, lambda: "no base.") is None


def test_a_folder_is_of_one_device(setup: Setup) -> None:
    OutcomeFile(setup).note("tests", Outcome(state="done", seconds=1.0, date=""))
    with pytest.raises(ValueError, match="is of cpu"):
        OutcomeFile(Setup(out=setup.out, device="cuda", base=SHIPPED_AR))
    (setup.out / "gpu.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        OutcomeFile(setup)


@pytest.mark.parametrize(("minutes", "calls"), [(5, 1), (8.5, 1), (9, 2), (18, 3)])
def test_training_takes_as_many_calls_as_its_minutes(minutes: float, calls: int, tmp_path: Path) -> None:
    steps = {
        step.name: step for step in steps_of(Setup(out=tmp_path, device="cuda", base=SHIPPED_AR, training=minutes))
    }
    assert [name for name in steps if name.startswith("train-")] == [f"train-{n + 1}" for n in range(calls)]
    assert steps["spec-bench"].after == (f"train-{calls}",)


def test_the_recipe_of_the_claims_is_the_command_of_the_step(tmp_path: Path) -> None:
    steps = {step.name: step for step in steps_of(Setup(out=tmp_path, device="cuda", base=SHIPPED_AR))}
    [command] = steps["bench-masks"].commands
    assert RECIPES["gpu-bench"].made(" ".join(("python", *command)))


def test_the_list_and_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "--out", str(tmp_path), "--list"]) == 0
    printed = capsys.readouterr().out
    steps = steps_of(Setup(out=tmp_path, device="cuda", base="smollm2-135m"))
    assert all(step.name in printed for step in steps)
    assert f"0 of {len(steps)} steps are done; left: tests, agree-float32" in printed
    assert not list(tmp_path.iterdir())
    assert all(step.minutes <= running.LIMIT_MINUTES for step in steps)
    assert main(["gpu", "--out", str(tmp_path), "--step", "nonsense"]) == 2
    assert "step must be one of tests," in capsys.readouterr().err
    assert main(["gpu", "--out", str(tmp_path), "--device", "cpu", "--tiny", "--minutes", "0.01"]) == 0
    assert "tests: may take 5 minutes, and 0.0 are left" in capsys.readouterr().err


def test_targets_are_read_off_the_results(tmp_path: Path) -> None:
    assert targets(tmp_path) == []

    def passes(batch_size: int, queries: int, milliseconds: float) -> dict[str, object]:
        share = 0.7 if queries == 1 else None
        seconds = {"median": milliseconds / 1000}
        return {"batch_size": batch_size, "queries": queries, "seconds": seconds, "bandwidth_share": share}

    steps = [passes(1, 1, 4.0), passes(1, 15, 4.2), passes(8, 1, 4.0), passes(8, 15, 4.8)]
    (tmp_path / "passes-7b.json").write_text(json.dumps({"steps": steps}))
    results = [
        {
            "contestant": name,
            "batch_size": size,
            "efficiency": {"median": 0.9},
            "speedup_over_autoregressive": {"median": gain},
        }
        for name, size, gain in (("self_speculative/linear", 1, 2.5), ("self_speculative/linear", 16, 2.0))
    ]
    (tmp_path / "bench-masks.json").write_text(json.dumps({"results": results}))
    assert [(round(each.value, 3), each.met) for each in targets(tmp_path)] == [
        (0.7, True),
        (1.05, True),
        (1.2, False),
        (0.9, False),
        (0.9, True),
        (2.5, True),
    ]
