"""What a cluster is asked for, without one: a stand-in for Ray keeps it."""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mars.serve import application
from mars.serve.__main__ import parser


class Ray:
    """Keeps the options of the deployment and what its replicas are made with."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.serve = SimpleNamespace(ingress=lambda: lambda found: found, deployment=self._deployment)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def _deployment(self, _: type, **asked: Any) -> Any:
        self.asked = asked
        return SimpleNamespace(bind=lambda options, _: options)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    found = Ray()
    monkeypatch.setitem(sys.modules, "ray", found)
    return found


def deployed(*arguments: str) -> argparse.Namespace:
    return application._deployment(parser().parse_args(["--ray", "auto", *arguments]), None)


@pytest.mark.parametrize(("grace", "seconds"), [((), 600.0), (("--grace", "0"), 0.0), (("--grace", "5"), 5.0)])
def test_a_leaving_replica_has_the_time_asked(ray: Ray, grace: tuple[str, ...], seconds: float) -> None:
    deployed("--checkpoint", "x", *grace)
    assert ray.asked["graceful_shutdown_timeout_s"] == seconds


def test_replicas_get_absolute_paths_and_hub_names(ray: Ray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in another folder than the command."""
    monkeypatch.chdir(tmp_path)
    for name in ("adapter", "base"):
        (tmp_path / name).mkdir()
    found = deployed("--checkpoint", "adapter", "--base", "base")
    assert (found.checkpoint, found.base) == (str(tmp_path / "adapter"), str(tmp_path / "base"))
    found = deployed("--checkpoint", "Qwen/Qwen2.5-0.5B", "--base", "smollm2")
    assert (found.checkpoint, found.base) == ("Qwen/Qwen2.5-0.5B", "smollm2")
    assert deployed("--checkpoint", "adapter").base is None


def test_names_are_those_that_browsers_send(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--checkpoint", "x", "--allowed-host", "GPU-Machine", "--allow-origin", "https://Example.org/"]
    found = parser().parse_args(given)
    assert (found.allowed_host, found.allow_origin) == (["gpu-machine"], ["https://example.org"])
    for more, reason in (("--allowed-host=a:8000", "without a port"), ("--allow-origin=localhost:3000", "http://")):
        with pytest.raises(SystemExit):
            parser().parse_args([*given, more])
        assert reason in capsys.readouterr().err
