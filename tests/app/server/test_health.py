from collections.abc import Callable
from typing import Any

from app.compare.runner import Runner
from app.server.routes import health

MakeRunner = Callable[..., Runner]


def test_health_names_what_is_loaded_and_what_failed(make_runner: MakeRunner) -> None:
    runner = make_runner(places=3)
    runner.models.get("ar")
    runner.models.wait("broken")
    found = health(runner)
    assert found["status"] == "ok"
    assert found["models"] == {"loaded": ["ar"], "loading": [], "failed": ["broken"]}
    assert found["runs"] == {"active": 0, "waiting": 0, "places": 3}


def test_it_is_failing_when_nothing_could_be_loaded(make_runner: MakeRunner) -> None:
    runner = make_runner()
    runner.models.wait("broken")
    assert health(runner)["status"] == "failing"


def test_it_is_starting_while_the_first_checkpoint_loads(make_runner: MakeRunner, monkeypatch: Any) -> None:
    runner = make_runner()
    monkeypatch.setattr(runner.models, "state", lambda: {"loaded": [], "loading": ["ar"], "failed": []})
    assert health(runner)["status"] == "starting"
