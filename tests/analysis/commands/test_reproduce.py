"""`python -m analysis reproduce`: one table of what figures and claims rest on, and runs made again from it."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main, parser
from analysis.claims import CLAIMS
from analysis.commands import reproduce
from analysis.figures import FIGURES
from analysis.runs import open_runs, read_runs, write_run
from analysis.studies import STUDIES, behind_figure, in_order, study_of

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "assets" / "runs"


def test_every_figure_and_claim_rests_on_a_study() -> None:
    assert {number for study in STUDIES.values() for number in study.claims} == {claim.number for claim in CLAIMS}
    assert {name for study in STUDIES.values() for name in study.figures} == FIGURES.keys()
    assert {entry["plan"] for entry in open_runs(RUNS).entries} <= STUDIES.keys()
    for study in STUDIES.values():
        for place in re.findall(r"analysis/plans/\S+", study.command):
            assert study.earlier or (ROOT / place).is_file()


def test_a_figure_without_a_study_is_called_so() -> None:
    with pytest.raises(ValueError, match="no study is behind the figure pie"):
        behind_figure("pie")


@pytest.mark.parametrize("name", STUDIES)
def test_the_options_of_a_study_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in STUDIES[name].line().split(" && "):
        words = shlex.split(command.partition(" | ")[0])
        if words[:3] == ["python", "-m", "analysis"]:
            assert parser([words[3]]).parse_args(words[3:]).command == words[3], capsys.readouterr().err


def test_a_command_is_known_whatever_the_store() -> None:
    sweep, kinds, bench = (STUDIES[name] for name in ("shipped", "real-kinds", "bench"))
    assert sweep.made("python -m analysis sweep analysis/plans/shipped.toml")
    assert sweep.made("python -m analysis sweep analysis/plans/shipped.toml --runs 'some where' --json")
    assert not sweep.made("python -m analysis sweep analysis/plans/smoke.toml")
    elsewhere = kinds.line("elsewhere").rpartition(" && ")[2]
    assert kinds.made(elsewhere)
    assert not kinds.made(elsewhere.replace("--limit 4", "--limit 1"))
    assert bench.made(bench.line().partition(" | ")[0])
    assert study_of(elsewhere) == "real-kinds"
    assert study_of("python -m analysis ifeval") is None
    several = STUDIES["real-batches"].line("some where")
    assert all(STUDIES["real-batches"].made(command) for command in several.split(" && "))
    assert "some where'" in several.rpartition("--batch-size 32 --limit 128 --runs ")[2]


def test_the_list_has_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--runs", str(RUNS)]) == 0
    lines = {line.split()[0].rstrip(":"): line for line in capsys.readouterr().out.splitlines() if line}
    names = {*(f"claim-{claim.number}" for claim in CLAIMS), *(f"figure-{name}" for name in FIGURES), *STUDIES}
    assert names <= lines.keys()
    hours = STUDIES["speculative"].hours + STUDIES["ablation-models"].hours + STUDIES["real-kinds"].hours
    assert f"about {hours:g} " in lines["claim-7"], "training the models counts"
    assert STUDIES["ablation-models"].machine in lines["claim-7"]
    assert main(["reproduce", "figure-nonsense"]) == 2
    assert "name must be one of claim-1," in capsys.readouterr().err


def test_what_has_to_be_there_first_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert [study.name for study in in_order(["calibration"])] == ["ablation-models", "calibration"]
    assert main(["reproduce", "claim-7", "--dry-run", "--runs", "some where"]) == 0
    models, sweep, real, claims = capsys.readouterr().out.splitlines()
    assert models == STUDIES["ablation-models"].command
    assert " && cd runs/4ebfdf5 && " in sweep
    assert "python -m analysis sweep analysis/plans/speculative.toml --runs " in sweep
    assert "git worktree add runs/4ebfdf5 4ebfdf5; } && cd runs/4ebfdf5 && python -m analysis spec-bench " in real
    assert claims == "python -m analysis claims --runs 'some where'"


def test_a_command_runs_in_a_shell_with_python() -> None:
    code = f"import sys; sys.exit(sys.prefix != {sys.prefix!r})"
    reproduce._call(f"python -c {shlex.quote(code)} | cat")
    with pytest.raises(ValueError, match=r"this command ended with exit code 7: python -c"):
        reproduce._call("python -c 'raise SystemExit(7)' | cat")


def test_the_runs_of_a_plan_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """On a copy of the plan's runs, from which one was removed; in this process, which has imported torch."""

    def call(command: str) -> None:
        python, module, name, *words = shlex.split(command)
        assert (python, module, name) == ("python", "-m", "analysis")
        assert main(words) == 0

    monkeypatch.setattr(reproduce, "_call", call)
    store = tmp_path / "runs"
    shipped = open_runs(RUNS)
    before = {entry["id"]: entry for entry in shipped.entries if entry["plan"] == "smoke"}
    lost = next(run for run, entry in before.items() if entry["decoder"] == "jacobi")
    for run in before.keys() - {lost}:
        write_run(store, before[run], shipped.rows(run))
    assert main(["reproduce", "smoke", "--runs", str(store)]) == 0
    again = read_runs(store)
    assert {entry["id"] for entry in again.entries} == before.keys()
    assert not again.problems
    texts = again.rows(lost)["text"] == shipped.rows(lost)["text"]
    assert texts.mean() > 0.95, "in float32 the texts are those of the run that was removed"
