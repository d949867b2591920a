"""What the exported page reads in place of asking a server: recorded runs, and the answers of Trade-offs."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.figures import FIGURES
from app.compare import problems
from app.compare.runner import Runner
from app.models.manager import Models
from app.runs.run import Run, read, shipped
from app.scheduling import AdmissionQueue, Sessions
from app.tabs import learn
from app.tabs.tradeoffs import FIRST, answering
from app.tradeoffs.drawing import View
from app.tradeoffs.run_cache import RunCache
from mars.garbage import gc_frozen
from mars.schema import as_json
from mars_site import recorded

EXAMPLES = Path(__file__).parents[1] / "assets" / "examples"
BUDGETS = (View().points, 1.0, 5.0)
"""Of accuracy, in points; the first is shown first. A server answers any other one."""
_LIVE = "Settings act in the app: see README.md."
_FEW = "Only the first texts are part of this page. The app shows all of them."
Files = dict[str, str]
"""Texts by their path in the folder of data."""


def runs() -> dict[str, Run]:
    """Every recorded run by its name, which is its id in the page: first those of the prompts to choose from."""
    first = {recorded.NAME: shipped()[recorded.NAME]}
    lessons = {Path(name).stem: read((learn.FOLDER / name).read_bytes()) for name in learn.RUNS}
    named = {name: replace(run, title=f"Lesson: {run.title}") for name, run in lessons.items()}
    return {name: replace(run, id=name) for name, run in (first | shipped(EXAMPLES) | shipped() | named).items()}


def offers(runs: Mapping[str, Run]) -> list[dict[str, Any]]:
    """The runs as Compare offers them: the label of the prompt's button, where it has one, else the run's title."""
    labels = {prompt: label for label, prompt in problems.QUESTIONS}
    found = []
    for name, run in runs.items():
        asked, problem = run.question, run.question.problem
        label = labels.get(asked.prompt, run.title) or "This run"
        place = {"task": problem.task, "seed": problem.seed} if problem else {}
        offer = {"name": name, "label": label, "prompt": asked.prompt, "question": asked.prompt in labels}
        found.append({**offer, **place})
    return found


def budgets() -> dict[str, float]:
    """The budgets that the page may be asked for."""
    return {"value": BUDGETS[0], "least": min(BUDGETS), "most": max(BUDGETS)}


def files() -> Files:
    found = dict(file for run in runs().values() for file in run_files(run))
    return found | _tradeoffs(answering(RunCache(), runner({})))


def run_files(run: Run) -> Iterator[tuple[str, str]]:
    """What Compare and Step through read of a run."""
    yield f"runs/{run.id}.lines", recorded.played(run)
    yield f"runs/{run.id}.json", as_json(run)


def runner(sources: Mapping[str, str]) -> Runner:
    """A runner that names these checkpoints and starts nothing."""

    def load(source: str) -> Any:
        raise ValueError(f"the export loads no model, got {source}")

    return Runner(Models(sources, load), AdmissionQueue(1, 1), Sessions())


def _tradeoffs(answer: Callable[[object], str]) -> Files:
    """The answers to the questions of the tab: every view, and the card of every run in their tables."""

    def ask(what: str, about: Any) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(answer({"ask": what, "about": about}))
        return told

    with gc_frozen():  # a library collects all garbage for each answer
        answer(FIRST)
    found, runs, views = Files(), dict[str, None](), list[dict[str, Any]]()
    for view, shown in _views(ask):
        views.append({**view, "file": f"trade/view-{len(views)}.json"})
        found[views[-1]["file"]] = json.dumps(shown)
        runs |= dict.fromkeys(row["id"] for row in shown["table"]["rows"] if row["id"])
    for place, run in enumerate(runs):
        card = {**ask("card", {"id": run}), "choice": None, "lacking": _LIVE}
        found[f"trade/run-{place}.json"] = json.dumps({"card": card, "texts": ask("samples", {"id": run})})
    index = {"views": views, "runs": list(runs), "few": _FEW}
    return {**found, "trade/index.json": json.dumps(index)}


def _views(ask: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every view of all families together (each alone were ten times as many), the first choice of each list first."""
    for figure in FIGURES:
        waiting: list[dict[str, Any]] = [{"figure": figure}]
        seen = list[dict[str, Any]]()
        while waiting:
            shown = ask("view", waiting.pop(0))
            lists = {name: shown[name]["value"] for name in ("runs", "batch")}
            view = {"figure": figure, "against": shown["against"], **lists, "task": shown["task"]}
            if view in seen:
                continue
            seen.append(view)
            asked = {**view, "batch": view["batch"] or View().batch}
            for points in BUDGETS if shown["answer"] else BUDGETS[:1]:
                same = points == View().points
                about = {**view, "points": points if shown["answer"] else None}
                answer = shown if same else ask("view", {**asked, "points": points})
                yield about, {**answer, "tasks": []}
            options = {"against": shown["axes"], "runs": shown["runs"]["options"]}
            waiting += [{**asked, name: each["value"]} for name, listed in options.items() for each in listed]
            waiting += [{**asked, "batch": batch} for batch in shown["batch"]["options"]]
