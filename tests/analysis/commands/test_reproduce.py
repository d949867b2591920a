"""`python -m analysis reproduce`: one table of what figures and claims rest on, and runs made again from it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.claims import CLAIMS
from analysis.commands import reproduce
from analysis.commands.reproduce import FIGURES
from analysis.recipes import RECIPES, in_order
from analysis.runs import open_runs, read_runs
from analysis.runs.files import remove_runs
from analysis.runs.loads import read_loads, write_load

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "assets" / "runs"


def test_every_figure_and_claim_names_recipes_of_the_table() -> None:
    for recipes in (
        *(claim.recipes for claim in CLAIMS),
        *(claim.on_real for claim in CLAIMS),
        *(each.recipes for each in FIGURES.values()),
    ):
        assert set(recipes) <= RECIPES.keys()
    assert all(each.recipes for each in FIGURES.values())
    assert all(bool(claim.on_real) != bool(claim.first) for claim in CLAIMS)
    for recipe in RECIPES.values():
        for place in re.findall(r"analysis/plans/\S+", recipe.command):
            assert (ROOT / place).is_file()


def test_a_command_is_that_of_its_recipe_whatever_the_store() -> None:
    sweep, kinds, bench = (RECIPES[name] for name in ("shipped", "real-kinds", "bench"))
    assert sweep.made("python -m analysis sweep analysis/plans/shipped.toml")
    assert sweep.made("python -m analysis sweep analysis/plans/shipped.toml --runs 'some where' --json")
    assert not sweep.made("python -m analysis sweep analysis/plans/smoke.toml")
    assert kinds.made(kinds.line("elsewhere"))
    assert not kinds.made(kinds.line().replace("--limit 4", "--limit 1"))
    assert bench.made(bench.line().partition(" | ")[0])
    several = RECIPES["real-batches"].line("some where")
    assert all(RECIPES["real-batches"].made(command) for command in several.split(" && "))
    assert "--batch-size 32 --limit 128 --runs 'some where'" in several


def test_the_list_has_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--runs", str(RUNS), "--json"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed.splitlines()[-1])
    names = {*(f"claim-{claim.number}" for claim in CLAIMS), *(f"figure-{name}" for name in FIGURES), *RECIPES}
    assert found["names"].keys() == names
    ablation = found["names"]["figure-ablation"]
    hours = RECIPES["ablations"].hours + RECIPES["ablation-models"].hours
    assert (ablation["recipes"], ablation["hours"]) == (["ablations"], hours), "training the models counts"
    assert ablation["machines"] == [RECIPES["ablation-models"].machine, RECIPES["ablations"].machine]
    line = next(line for line in printed.splitlines() if line.startswith("figure-ablation "))
    assert f"about {hours:g} " in line
    assert RECIPES["ablations"].machine in line
    assert all(line["hours"] > 0 and line["machine"] and line["commands"] for line in found["recipes"].values())
    assert main(["reproduce", "figure-nonsense"]) == 2
    assert "name must be one of claim-1," in capsys.readouterr().err


def test_what_has_to_be_there_first_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert [recipe.name for recipe in in_order(["calibration"])] == ["ablation-models", "calibration"]
    assert main(["reproduce", "claim-7", "--dry-run", "--runs", "some where"]) == 0
    sweep, real, claims = capsys.readouterr().out.splitlines()
    assert sweep == "python -m analysis sweep analysis/plans/speculative.toml --runs 'some where'"
    assert real.startswith("python -m analysis spec-bench ")
    assert claims == "python -m analysis claims --runs 'some where' --out 'some where/claims.md'"


def test_again_removes_the_load_tests_of_this_kind_of_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (theirs,) = [test for test in read_loads(RUNS)[0] if RECIPES["real-load"].made(test.command)]
    ours = replace(theirs, hardware="this machine")
    other = replace(ours, command="python -m tests.performance.arrivals --checkpoint elsewhere")
    for test in (theirs, ours, other):
        write_load(tmp_path, test)
    called: list[str] = []
    monkeypatch.setattr("analysis.commands.reproduce._call", called.append)
    monkeypatch.setattr("mars.provenance.hardware", lambda device="cpu": "this machine")
    assert main(["reproduce", "real-load", "--again", "--runs", str(tmp_path)]) == 0
    assert called == [RECIPES["real-load"].line(str(tmp_path))]
    assert {test.id for test in read_loads(tmp_path)[0]} == {theirs.id, other.id}


def test_a_stored_count_is_that_of_its_recipe() -> None:
    """The breakdown is no run: its file names the command that made it."""
    stored = json.loads((RUNS / "breakdown-135m.json").read_text(encoding="utf-8"))
    assert stored["command"] == RECIPES["real-breakdown"].line()


def test_a_command_runs_in_a_shell_with_this_python() -> None:
    code = f"import sys; sys.exit(sys.prefix != {sys.prefix!r})"
    reproduce._call(f"python -c {shlex.quote(code)} | cat")
    with pytest.raises(ValueError, match=r"this command ended with exit code 7: python -c"):
        reproduce._call("python -c 'raise SystemExit(7)' | cat")


def test_the_runs_of_a_plan_are_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    """On a copy of the plan's runs, from which one was removed; in this process, which has imported torch."""

    def call(command: str) -> None:
        python, module, name, *words = shlex.split(command)
        assert (python, module, name) == ("python", "-m", "analysis")
        assert main(words) == 0

    monkeypatch.setattr(reproduce, "_call", call)
    store = tmp_path / "runs"
    shutil.copytree(RUNS, store)
    remove_runs(store, lambda entry: entry["plan"] != "smoke")
    before = {entry["id"]: entry for entry in read_runs(store).entries}
    lost = next(run for run, entry in before.items() if entry["decoder"] == "jacobi")
    assert remove_runs(store, lambda entry: entry["id"] == lost) == 1
    assert not (store / f"{lost}.parquet").exists()
    assert main(["reproduce", "smoke", "--runs", str(store)]) == 0
    again = read_runs(store)
    assert {entry["id"] for entry in again.entries} == before.keys()
    assert not again.problems
    texts = again.rows(lost)["text"] == open_runs(RUNS).rows(lost)["text"]
    assert texts.mean() > 0.95, "in float32 the texts are those of the run that was removed"


@pytest.mark.parametrize(
    ("name", "hardware"),
    [
        ("smoke", "another machine"),
        ("real-accuracy", "another machine"),
        ("real-kinds", "AMD EPYC, 2 cores, AVX512-BF16"),
    ],
)
def test_again_removes_the_runs_that_the_command_would_make(
    name: str, hardware: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of benchmarks on the clock those of this kind of machine alone."""
    store = tmp_path / "runs"
    shutil.copytree(RUNS, store)
    called: list[str] = []
    monkeypatch.setattr("analysis.commands.reproduce._call", called.append)
    monkeypatch.setattr("mars.provenance.hardware", lambda device="cpu": hardware)
    assert main(["reproduce", name, "--again", "--runs", str(store)]) == 0
    recipe = RECIPES[name]
    assert called == [recipe.line(str(store))]
    left = {entry["id"] for entry in open_runs(store).entries}
    files = [file.stem for file in store.glob("*.parquet")]
    assert {name for name in files if not name.endswith(".proposals")} == left, "the others are whole"
    assert {name.removesuffix(".proposals") for name in files} == left, "nothing of those removed is left"
    before = open_runs(RUNS).entries
    made = {entry["id"] for entry in before if recipe.made(entry["command"])}
    elsewhere = {entry["id"] for entry in before if entry["hardware"] != hardware} if name == "real-kinds" else set()
    assert left == {entry["id"] for entry in before} - (made - elsewhere)
    assert made - elsewhere
    assert (made & elsewhere != set()) == (name == "real-kinds")
